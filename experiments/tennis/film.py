"""The ball is returned and caught; and what sampling makes of it."""

from experiments import comparison


def film():
    return comparison.motions(
        "tennis",
        lookat=(0.02, -0.3, 1.29),
        distance=0.9,
        azimuth=90,
        elevation=-25,
        slower=2,
        moments=(0.0, 0.15, 0.28, 0.4, 0.5, 0.72),
    )
