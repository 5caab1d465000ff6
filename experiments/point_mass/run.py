"""A point mass that bounces once: why gradients through impacts go wrong [Paulus26, fig. 4].

It starts at height q0, falls at 1 m/s without gravity, and is integrated by semi-implicit Euler for
2 s. The loss is its distance from height 1 in the end. Its derivative in q0 is carried along with
the steps, as automatic differentiation would. Two contacts: an ideal elastic one, which turns the
velocity round, and a spring with a damper, which small steps resolve. The exact solution of both
is known.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from experiments import common

TIME, TARGET = 2.0, 1.0  # [s], [m]
DAMPING, STIFFNESS = 1.0, 50.0  # of the penalty, per mass [1/s], [1/s²]
OMEGA = np.sqrt(STIFFNESS - DAMPING**2 / 4)  # [1/s], of the mass on the spring
STEPS = {"coarse": 0.1, "fine": 1e-4}  # [s]
CONTACTS = ("elastic", "penalty")


def simulate(contact, q0, h):
    """Loss, and its derivative in q0 through the steps."""
    q, v = q0.copy(), np.full_like(q0, -1.0)
    q_dot, v_dot = np.ones_like(q0), np.zeros_like(q0)
    for _ in range(round(TIME / h)):
        below = q < 0
        if contact == "elastic":
            v = np.where(below, -v, v)
            v_dot = np.where(below, -v_dot, v_dot)
        else:
            v = v + h * np.where(below, -DAMPING * v - STIFFNESS * q, 0)
            v_dot = v_dot + h * np.where(below, -DAMPING * v_dot - STIFFNESS * q_dot, 0)
        q = q + h * v
        q_dot = q_dot + h * v_dot
    return np.abs(q - TARGET), np.sign(q - TARGET) * q_dot


def exact(contact, q0):
    """The same of the motion itself. It meets the floor at time q0."""
    after = TIME - q0  # since the impact [s]
    if contact == "elastic":
        q, slope = np.abs(after), np.where(after > 0, -1.0, 1.0)
    else:
        duration = np.pi / OMEGA
        rebound = np.exp(-DAMPING * duration / 2)  # [m/s]
        decay, phase = np.exp(-DAMPING * after / 2), OMEGA * after
        inside = -decay * np.sin(phase) / OMEGA
        speed = -decay * (np.cos(phase) - DAMPING / (2 * OMEGA) * np.sin(phase))
        where = [after <= 0, after < duration]
        q = np.select(where, [-after, inside], rebound * (after - duration))
        slope = -np.select(where, [-1.0, speed], rebound)
    return np.abs(q - TARGET), np.sign(q - TARGET) * slope


def measure(q0):
    """Curves by contact and step, and over the starts that bounce: the part whose gradient has the
    wrong sign, and the median of its error."""
    curves, summary = {}, {}
    for contact in CONTACTS:
        _, truth = exact(contact, q0)
        done = np.isclose(np.abs(truth), np.abs(truth[0]))  # the bounce is over in the end
        bounced = done & (q0 < TIME) & (q0 > STEPS["coarse"])
        for name, h in STEPS.items():
            curves[contact, name] = simulate(contact, q0, h)
            _, gradient = curves[contact, name]
            summary[f"{contact}, {name}"] = {
                "wrong_sign": float(np.mean(np.sign(gradient) != np.sign(truth), where=bounced)),
                "median_error": float(np.median(np.abs(gradient - truth)[bounced])),
            }
    return curves, summary


def draw(q0, curves):
    figure, axes = plt.subplots(2, 4, figsize=(15, 6.5), sharex=True, sharey="row")
    for (top, bottom), ((contact, name), (loss, gradient)) in zip(
        axes.T, curves.items(), strict=True
    ):
        true_loss, true_gradient = exact(contact, q0)
        top.set_title(f"{contact}, steps of {STEPS[name]:g} s")
        top.plot(q0, true_loss, color=common.BLACK, linewidth=2.5, alpha=0.35)
        top.plot(q0, loss, color=common.VERMILION, linewidth=1)
        bottom.plot(q0, true_gradient, color=common.BLACK, linewidth=2.5, alpha=0.35)
        bottom.plot(q0, gradient, color=common.VERMILION, linewidth=1)
        bottom.set(xlabel="initial height q0 [m]", ylim=(-2.5, 2.5))
    axes[0, 0].set_ylabel("loss |q(2 s) - 1| [m]")
    axes[1, 0].set_ylabel("d(loss)/d(q0)")
    keys = {
        "of the motion, exactly": plt.Line2D([], [], color="0.65", linewidth=2.5),
        "of the steps of semi-implicit Euler": plt.Line2D([], [], color=common.VERMILION),
    }
    figure.legend(keys.values(), keys.keys(), loc="outside lower center", ncols=2)
    figure.suptitle("A point mass bounces once: smaller steps help a penalty, not an ideal impact")
    return figure


def main(argv=None):
    options = common.arguments(__doc__, argv)
    expected, checks = common.expected(__file__), common.Checks()
    q0 = np.linspace(0, 3, 500 if options.quick else 2000, endpoint=False)
    curves, summary = measure(q0)
    for name, row in summary.items():
        print(
            f"  {name:<16}: wrong sign at {100 * row['wrong_sign']:.0f} % of the starts that "
            f"bounce, error {row['median_error']:.2g} in the median"
        )
        for quantity, (low, high) in expected[name].items():
            checks.above(f"{name}, {quantity}", row[quantity], low)
            checks.below(f"{name}, {quantity}", row[quantity], high)
    table = {"q0 [m]": q0} | {
        f"{contact}, {name}: {what}": curve
        for (contact, name), pair in curves.items()
        for what, curve in zip(("loss [m]", "gradient"), pair, strict=True)
    }
    figure = draw(q0, curves)
    common.write(options.out / "point_mass", summary, checks, {"curves": table}, curves=figure)
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
