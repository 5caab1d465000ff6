"""Side, mass, contact parameters and friction of a tossed cube together, judged by whole tosses.

Fits use short segments [Paulus26, app. E.2]; what counts is the distance of whole tosses, simulated
from their second row on, from recorded ones that no fit has seen.
1. From the parameters that the paper tuned by hand, with segments of 4 and of 10 intervals, for
   three models: the paper's; one with MuJoCo's round ("elliptic") cone of friction instead of the
   pyramid; and one whose inertia is free as well, since the cube is not solid.
2. From random starts, with segments of 4.

The tosses: see experiments/tossed_cube.py.
"""

import sys
import time

import diffmj
import numpy as np

from experiments import common, tossed_cube
from experiments.cube_all import fits
from experiments.cube_all.draw import draw_errors, draw_parameters
from experiments.tossed_cube import NOISE, SIDE, TUNED, simulator, whole_tosses

# of the tosses in the order of their numbers; the paper's error is that of the first forty
UNSEEN, FITTED, MORE = 40, 100, 100
HOLLOW = TUNED | {"side": SIDE, "friction": 0.18, "solref[0]": 0.01, "inertia": 1.5}
TIPPED = 0.2  # error of a toss that ends on another side of the cube, or nearly so


def load(quick):
    """Tosses to fit and tosses that no fit sees."""
    unseen, fitted, more = (20, 20, 0) if quick else (UNSEEN, FITTED, MORE)
    data = tossed_cube.tosses(unseen + fitted + more, HOLLOW, "elliptic")
    x = data.recordings
    return data, x[unseen : unseen + fitted], x[:unseen] + x[unseen + fitted :]


def noise_error(sim, recordings):
    """The error that a perfect model would have, because recorded velocities have noise."""
    random = np.random.default_rng(0)
    made = []
    for x, qpos in zip(recordings, tossed_cube.replay(sim, recordings), strict=True):
        qvel = x.qvel.copy()
        qvel[1, :3] += NOISE["velocity"] * random.standard_normal(3)
        qvel[1, 3:] += NOISE["spin"] * random.standard_normal(3)
        made.append(diffmj.Recording(x.time, qpos=np.vstack([x.qpos[:1], qpos]), qvel=qvel))
    return whole_tosses(sim, made).error


def main(argv=None):
    options = common.arguments(__doc__, argv)
    checks, begin = common.Checks(), time.perf_counter()
    data, fitted, unseen = load(options.quick)
    kind = ("synthetic" if data.synthetic else "real") + (" quick" if options.quick else "")
    expected = common.expected(__file__)[kind]
    print(f"{data.note}\n{len(fitted)} to fit, {len(unseen)} to judge by")

    planned = fits.plan(options.quick)
    found = fits.all_fits(tossed_cube.weighted(fitted), planned, options.nthread)
    first, *_, last = fits.MODELS
    reported = TUNED | {"side": SIDE, "friction": 0.18}
    judged = {
        "tuned by hand": (TUNED, first),
        "reported side and friction": (reported, first),
        "the same, round cone": (reported, "round cone"),
    }
    judged |= {name: (x.values, planned[name][0]) for name, x in found.items()}
    errors, before = {}, {}
    print(f"\n{'':34}  error  position   of the tosses that were fitted")
    for name, (values, model) in judged.items():
        sim = simulator(values, fits.MODELS[model][0], nthread=options.nthread)
        errors[name], before[name] = (whole_tosses(sim, x) for x in (unseen, fitted))
        numbers = " ".join(f"{key} {value:.4g}" for key, value in values.items())
        x = errors[name]
        print(f"{name:34} {x.error:6.3f} {x.position:6.1f} mm {before[name].error:6.3f}  {numbers}")

    def chosen(model, kind=""):
        """Of several fits, the one whose whole tosses are nearest to those that were fitted."""
        names = [name for name, x in planned.items() if x[0] == model and kind in name]
        return min(names, key=lambda name: before[name].error)

    start, reported_error = errors["tuned by hand"], errors["reported side and friction"]
    paper, best = errors[chosen(first)], errors[chosen(last)]
    random = {model: errors[chosen(model, "random")].error for model in (first, last)}
    best_fit = found[chosen(last)]
    floor = noise_error(simulator(best_fit.values, fits.MODELS[last][0]), unseen)
    print(f"noise of recorded velocities alone: {floor:.3f}")

    checks.above("error of the parameters tuned by hand", start.error, expected["start"])
    checks.below("error of the paper's model, fitted", paper.error, expected["paper"])
    checks.below("error of the hollow cube, fitted", best.error, expected["hollow"])
    for model, name in ((first, "paper"), (last, "hollow")):
        what = f"random starts, {model}: error of the one that fits best"
        checks.below(what, random[model], expected[f"random {name}"])
    off = abs(best_fit.values["side"] / SIDE - 1)
    checks.below("side of the hollow cube, distance from 104.8 mm", off, expected["side"])
    mass = sum(not np.isfinite(x.last.errors["mass"]) for x in found.values())
    checks.above("fits that say that the mass is not determined", mass, len(found) - 0.5)

    numbers = {
        "note": data.note,
        "data": data.name,
        "unseen": len(unseen),
        "error": {"start": start.error, "reported": reported_error.error, "paper": paper.error,
                  "hollow": best.error, "noise": floor},
        "position": {"start": start.position, "reported": reported_error.position,
                     "paper": paper.position, "hollow": best.position},
        "tipped": {"start": float((start.each > TIPPED).mean()),
                   "hollow": float((best.each > TIPPED).mean())},
        "median": float(np.median(best.each)),
        "random": {"paper": random[first], "hollow": random[last]},
        "values": best_fit.values,
        "side": 1e3 * best_fit.values["side"],
        "friction": best_fit.values["friction"],
        "inertia": best_fit.values["inertia"],
        "seconds": time.perf_counter() - begin,
    }  # fmt: skip
    names = [*TUNED, "inertia"]
    tables = {
        "errors": {
            "parameters": list(errors),
            "error": [x.error for x in errors.values()],
            "position [mm]": [x.position for x in errors.values()],
        }
        | {name: [values.get(name, "") for values, _ in judged.values()] for name in names},
        "tosses": {name: x.each for name, x in errors.items()},
    }
    shown = {"start": start, "paper": paper, "hollow": best}
    title = f"{data.name}: {len(unseen)} that no fit has seen"
    common.write(
        options.out / "cube_all",
        numbers,
        checks,
        tables,
        errors=draw_errors(errors, shown, floor, not data.synthetic, title),
        parameters=draw_parameters(found, data.name),
    )
    return checks.report()


if __name__ == "__main__":
    sys.exit(main())
