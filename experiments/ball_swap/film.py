"""Two balls change places; and what sampling makes of it."""

from experiments import comparison


def film():
    return comparison.motions(
        "ball_swap",
        lookat=(-0.23, -0.53, 1.45),
        distance=0.36,
        azimuth=150,
        elevation=-50,
        slower=2,
        moments=(0.0, 0.15, 0.3, 0.45, 0.6, 0.75),
    )
