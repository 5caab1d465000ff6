"""The recorded run in which the balls change places first."""

from experiments import manipulation


def film():
    return manipulation.motion(
        "ball_swap", lookat=(-0.24, -0.53, 1.42), distance=0.5, azimuth=90, elevation=-50
    )
