"""The package: importing it against another MuJoCo, documentation, types."""

import ast
import inspect
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import diffmj
import mujoco
import pytest

PACKAGE = Path(diffmj.__file__).parent


def run_python(code: str, path: Path) -> subprocess.CompletedProcess:
    """A new interpreter that finds modules in path first."""
    code = (
        f"import sys; sys.path.insert(0, {str(path)!r}); sys.path.append({str(PACKAGE.parent)!r})\n"
        + (textwrap.dedent(code))
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.smoke
def test_versions():
    assert diffmj.mujoco_version == mujoco.__version__
    assert diffmj.__version__.count(".") == 2


@pytest.mark.smoke
def test_another_mujoco_is_refused(tmp_path):
    (tmp_path / "mujoco.py").write_text('__version__ = "1.2.3"\n')
    run = run_python("import diffmj", tmp_path)
    assert run.returncode != 0
    error = run.stderr.splitlines()[-1]
    assert error.startswith("ImportError")
    for text in ("1.2.3", mujoco.__version__, f"pip install mujoco=={mujoco.__version__}"):
        assert text in error
    assert "--no-build-isolation" in error


def test_the_extension_is_not_loaded_then(tmp_path):
    (tmp_path / "mujoco.py").write_text('__version__ = "1.2.3"\n')
    code = """
    try:
        import diffmj
    except ImportError:
        print([name for name in sys.modules if "_diffmj" in name])
    """
    assert run_python(code, tmp_path).stdout.strip() == "[]"


def test_missing_mujoco(tmp_path):
    (tmp_path / "mujoco.py").write_text('raise ImportError("no mujoco here")\n')
    run = run_python("import diffmj", tmp_path)
    error = run.stderr.splitlines()[-1]
    assert error.startswith("ImportError")
    assert "no mujoco here" in error
    assert f"pip install mujoco=={mujoco.__version__}" in error


def test_not_built(tmp_path):
    package = tmp_path / "diffmj"
    package.mkdir()
    for path in PACKAGE.glob("*.py"):
        if path.name != "_build_info.py":
            (package / path.name).write_text(path.read_text())
    run = run_python("import diffmj", tmp_path)
    error = run.stderr.splitlines()[-1]
    assert error.startswith("ImportError")
    assert "not built" in error


def test_everything_public_is_documented():
    for name in diffmj.__all__:
        public = getattr(diffmj, name)
        if not inspect.isclass(public):
            continue
        assert inspect.getdoc(public), name
        for attribute, value in vars(public).items():
            if attribute.startswith("_") or not (callable(value) or hasattr(value, "__get__")):
                continue
            if attribute in getattr(public, "__dataclass_fields__", {}):
                continue  # the class says what they are
            assert inspect.getdoc(value), f"{name}.{attribute}"
    assert "sim.rollout" in diffmj.__doc__
    fields = diffmj.Gradient.__dataclass_fields__
    for name in fields:
        assert f"{name}:" in diffmj.Gradient.__doc__


def test_a_star_import_hides_no_builtin():
    import builtins

    assert not set(diffmj.__all__) & set(vars(builtins))


def test_arguments_of_rollout_are_documented():
    for function in (diffmj.Simulator.rollout, diffmj.Trajectory.backward):
        for name in list(inspect.signature(function).parameters)[1:]:
            assert f"{name}: " in function.__doc__, name


def test_everything_public_has_types():
    assert (PACKAGE / "py.typed").exists()
    for name in diffmj.__all__:
        public = getattr(diffmj, name)
        for attribute, value in vars(public).items() if inspect.isclass(public) else ():
            value = getattr(value, "fget", value)
            if attribute.startswith("_") or not inspect.isfunction(value):
                continue
            signature = inspect.signature(value)
            assert signature.return_annotation is not inspect.Signature.empty, (name, attribute)
            for parameter in list(signature.parameters.values())[1:]:
                assert parameter.annotation is not inspect.Parameter.empty, (name, attribute)


def test_stub_mentions_every_name_of_the_extension():
    from diffmj import _diffmj

    stub = ast.parse((PACKAGE / "_diffmj.pyi").read_text())
    stubbed = {}
    for node in stub.body:
        if isinstance(node, ast.ClassDef):
            stubbed[node.name] = {x.name for x in node.body if isinstance(x, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            stubbed[node.name] = set()
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            stubbed[node.target.id] = set()
    for name, value in vars(_diffmj).items():
        if name.startswith("_"):
            continue
        assert name in stubbed
        if inspect.isclass(value):
            members = {x for x in vars(value) if not x.startswith("_")}
            assert members <= stubbed[name]


EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("[0-9]*.py"))
WITH_PYTORCH = [path for path in EXAMPLES if "import torch" in path.read_text()]


@pytest.mark.parametrize(
    "example", [x for x in EXAMPLES if x not in WITH_PYTORCH], ids=lambda path: path.stem
)
def test_examples_are_short_and_run(example):
    check_example(example)


@pytest.mark.parametrize("example", WITH_PYTORCH, ids=lambda path: path.stem)
def test_examples_with_pytorch(example):
    if "DIFFMJ_REQUIRE_TORCH" not in os.environ:
        pytest.importorskip("torch", reason="no PyTorch here: make test-torch runs it")
    check_example(example)


def test_without_pytorch_the_error_says_what_to_install():
    code = "import sys; sys.modules['torch'] = None; import diffmj.torch"
    done = run_python(code, Path(__file__).parent)
    assert done.returncode != 0
    assert "diffmj.torch needs PyTorch: pip install 'diffmj[torch]'" in done.stderr


def check_example(example: Path) -> None:
    text = example.read_text()
    assert len(text.splitlines()) < 80
    done = run_python(f"import runpy; runpy.run_path({str(example)!r})", example.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout
