"""MJX's forward dynamics under Diffrax's Tsit5, reverse mode.

usage: peer_mjx_diffrax.py SCENE TOLERANCE

The solver's while loop is made a scan, as in peer_mjx.py: Diffrax differentiates what it calls.
"""

import json
import sys
import time

import diffrax
import jax
import jax.numpy as jp
import mujoco
from mujoco import mjx
from mujoco.mjx._src import solver
from scenes import Scene

jax.config.update("jax_enable_x64", True)
ITERATIONS = 8

scene = Scene(sys.argv[1])
tolerance = float(sys.argv[2])
scene.model.opt.iterations = scene.model.opt.ls_iterations = ITERATIONS
solver.jax = type(
    "Jax",
    (),
    {
        "__getattr__": lambda self, name: getattr(jax, name),
        "lax": type(
            "Lax",
            (),
            {
                "__getattr__": lambda self, name: getattr(jax.lax, name),
                "while_loop": lambda self, cond, body, x: solver._while_loop_scan(
                    cond, body, x, ITERATIONS
                ),
            },
        )(),
    },
)()
free = [i for i, kind in enumerate(scene.model.jnt_type) if kind == mujoco.mjtJoint.mjJNT_FREE]
if any(kind == mujoco.mjtJoint.mjJNT_BALL for kind in scene.model.jnt_type):
    sys.exit("ball joints are not written for this script")
model = mjx.put_model(scene.model)
data = mjx.put_data(scene.model, scene.reset())
weights = jp.array(scene.weights)


def velocity(qpos, qvel):
    """d(qpos)/dt: of free joints with their quaternions, of the others qvel itself."""
    parts, q, v = [], 0, 0
    for i in range(scene.model.njnt):
        if i in free:
            w, x, y, z = qpos[q + 3 : q + 7]
            a, b, c = qvel[v + 3 : v + 6]
            turn = [-x * a - y * b - z * c, w * a + y * c - z * b]
            turn += [w * b + z * a - x * c, w * c + x * b - y * a]
            parts += [qvel[v : v + 3], 0.5 * jp.array(turn)]
            q, v = q + 7, v + 6
        else:
            parts.append(qvel[v : v + 1])
            q, v = q + 1, v + 1
    return jp.concatenate(parts)


def field(t, state, _):
    qpos, qvel, act = state
    x = mjx.forward(model, data.replace(qpos=qpos, qvel=qvel, act=act))
    return velocity(qpos, qvel), x.qacc, x.act_dot


def loss(qvel):
    end = scene.nstep * scene.model.opt.timestep
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        0.0,
        end,
        1e-4,
        (data.qpos, qvel, data.act),
        stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance),
        max_steps=4096,
    )
    return weights @ solution.ys[1][-1]


qvel = jp.array(scene.start["qvel"])
begin = time.process_time()
gradient = jax.jit(jax.grad(loss)).lower(qvel).compile()
compiled = time.process_time() - begin
result = gradient(qvel)
out = {"version": f"Diffrax {diffrax.__version__}, JAX {jax.__version__}"}
out |= {"compile": compiled, "gradient": result.tolist()}
out |= scene.times(lambda: gradient(qvel).block_until_ready())
print(json.dumps(out))
