"""MJX on the CPU in float64, reverse mode over mjx.step. usage: peer_mjx.py SCENE VARIANT

VARIANT: "as it is"; "one iteration" of the constraint solver, which MJX can differentiate; "scan",
with the solver's while loop made a scan of 8 iterations, which is not part of MJX.
"""

import json
import sys
import time

import jax
import jax.numpy as jp
import mujoco
from mujoco import mjx
from mujoco.mjx._src import solver
from scenes import Scene

jax.config.update("jax_enable_x64", True)
ITERATIONS = 8

scene = Scene(sys.argv[1])
variant = sys.argv[2]
if variant == "one iteration":
    scene.model.opt.iterations = 1
elif variant == "scan":
    scene.model.opt.iterations = scene.model.opt.ls_iterations = ITERATIONS

    class Lax:
        """jax.lax for the solver, with another while loop."""

        def __getattr__(self, name):
            return getattr(jax.lax, name)

        def while_loop(self, cond, body, x):
            return solver._while_loop_scan(cond, body, x, ITERATIONS)

    class Jax:
        lax = Lax()

        def __getattr__(self, name):
            return getattr(jax, name)

    solver.jax = Jax()

model = mjx.put_model(scene.model)
start = mjx.put_data(scene.model, scene.reset())
weights = jp.array(scene.weights)


# the types that a step returns are not those of put_data
types = jax.eval_shape(mjx.step, model, start)
start = jax.tree.map(lambda x, shape: jp.asarray(x, shape.dtype), start, types)


def loss(qvel):
    def step(data, _):
        return mjx.step(model, data), None

    end, _ = jax.lax.scan(step, start.replace(qvel=qvel), None, length=scene.nstep)
    return weights @ end.qvel


qvel = jp.array(scene.start["qvel"])
begin = time.process_time()
gradient = jax.jit(jax.grad(loss)).lower(qvel).compile()
compiled = time.process_time() - begin
result = gradient(qvel)
versions = f"MJX {__import__('importlib.metadata').metadata.version('mujoco-mjx')}"
out = {"version": f"{versions}, JAX {jax.__version__}, MuJoCo {mujoco.__version__}"}
out |= {"compile": compiled, "gradient": result.tolist()}
out |= scene.times(lambda: gradient(qvel).block_until_ready())
print(json.dumps(out))
