"""How far adaptive steps are ahead of constant ones."""

from experiments.pareto.draw import seconds

MUJOCO = ("Euler", "implicitfast", "RK4")
DISCRETE = ("bosh3", "tsit5", "dopri5", "dopri8")


def lowest_error(curves, names, budget, resolved):
    """Of all points that cost at most this [s]; not below what the reference resolves."""
    errors = [p["error"] for name in names for p in curves[name] if seconds(p) <= budget]
    return max(resolved, min(errors))


def lowest_cost(curves, names, error):
    """[s], of all points that have at most this error, and so have all finer ones of their curve:
    a coarse one may be right by chance."""
    cost = []
    for name in names:
        for point in reversed(curves[name]):
            if point["error"] > error:
                break
            cost.append(seconds(point))
    return min(cost)


def ratios(curves, expected):
    """How far adaptive methods are ahead: in error at equal cost, in cost at equal error."""
    step = expected["budget_timestep"]
    budget = next(seconds(p) for p in curves["Euler"] if p["knob"] == step)
    resolved = expected["resolved"]
    constant = lowest_error(curves, MUJOCO, budget, resolved)
    target = expected["target"]
    cost = lowest_cost(curves, MUJOCO, target)
    return {
        "error_ratio_discrete": constant / lowest_error(curves, DISCRETE, budget, resolved),
        "error_ratio_interpolated": constant
        / lowest_error(curves, ("tsit5 interpolated",), budget, resolved),
        "cost_ratio_discrete": cost / lowest_cost(curves, DISCRETE, target),
    }
