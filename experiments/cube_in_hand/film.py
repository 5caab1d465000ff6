"""A die is turned in the hand; and what sampling makes of it."""

from experiments import comparison


def film():
    return comparison.motions(
        "cube_in_hand",
        lookat=(-0.19, -0.53, 1.36),
        distance=0.36,
        azimuth=150,
        elevation=-35,
        slower=2,
        moments=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
    )
