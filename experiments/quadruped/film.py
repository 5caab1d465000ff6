"""A quadruped crosses a gap; and what sampling makes of it."""

from experiments import comparison


def film():
    return comparison.motions(
        "quadruped",
        lookat=(0.6, 0.0, 0.15),
        distance=2.4,
        azimuth=95,
        elevation=-15,
        slower=2,
        moments=(0.0, 0.25, 0.4, 0.55, 0.7, 1.0),
    )
