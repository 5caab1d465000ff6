"""The recorded run in which the die is turned first."""

from experiments import manipulation


def film():
    return manipulation.motion(
        "cube_in_hand", lookat=(-0.24, -0.53, 1.42), distance=0.5, azimuth=90, elevation=-50
    )
