"""The package: importing it against another MuJoCo, documentation, types."""

import ast
import inspect
import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import diffmj
import mujoco
import pytest
from packaging.specifiers import SpecifierSet

PACKAGE = Path(diffmj.__file__).parent
ROOT = Path(__file__).parents[2]


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
    assert f"supports MuJoCo {mujoco.__version__}" in error


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
    copy_package(tmp_path)
    run = run_python("import diffmj", tmp_path)
    error = run.stderr.splitlines()[-1]
    assert error.startswith("ImportError")
    assert "not built" in error


def copy_package(folder: Path) -> Path:
    """The Python files of the package, without any extension."""
    package = folder / "diffmj"
    package.mkdir()
    for path in PACKAGE.glob("*.py"):
        (package / path.name).write_text(path.read_text())
    return package


def test_the_extension_of_the_installed_mujoco_is_chosen(tmp_path):
    package = copy_package(tmp_path)
    for version in ("4.0.0", "3.17.0", "10.2.0"):
        folder = package / "_releases" / version
        folder.mkdir(parents=True)
        (folder / "_diffmj.py").write_text(f"raise SystemExit('the extension for {version}')\n")
    (tmp_path / "mujoco.py").write_text('__version__ = "3.17.0"\n')
    assert "the extension for 3.17.0" in run_python("import diffmj", tmp_path).stderr
    (tmp_path / "mujoco.py").write_text('__version__ = "3.16.0"\n')
    error = run_python("import diffmj", tmp_path).stderr.splitlines()[-1]
    assert "MuJoCo 3.16.0 is installed" in error
    assert "supports MuJoCo 10.2.0, 4.0.0 and 3.17.0." in error
    assert "pip install mujoco==10.2.0" in error


def run_program(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """The console program as an installation has it, which does not import the package."""
    return subprocess.run(
        [sys.executable, ROOT / "python/scripts/diffmj", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)} | environment,
    )


@pytest.mark.smoke
def test_python_m_is_the_program():
    module = subprocess.run(
        [sys.executable, "-m", "diffmj", "--version"], capture_output=True, text=True
    )
    assert module.stdout.startswith(f"diffmj {diffmj.__version__} (MuJoCo")
    assert run_program("--version").stdout == module.stdout


def test_doctor_knows_python():
    done = run_program("doctor")
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    assert first == "works: all self-tests passed"
    words = (diffmj.__version__, sys.executable, str(PACKAGE), f"mujoco {mujoco.__version__}")
    for word in (*words, sys.version.split()[0], "numpy "):
        assert any(word in line for line in rest), word


def test_doctor_where_nothing_works(tmp_path):
    copy_package(tmp_path)
    done = run_program("doctor", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert "none: it is not built" in done.stdout
    assert done.stderr.startswith("diffmj: error: diffmj is not built")


def test_releases_are_the_same_everywhere():
    releases = (ROOT / "cmake/mujoco_releases.txt").read_text().split()
    assert mujoco.__version__ in releases
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert f"mujoco=={releases[0]}" in project["build-system"]["requires"]
    (wanted,) = (x for x in project["project"]["dependencies"] if x.startswith("mujoco"))
    specifier = SpecifierSet(wanted.removeprefix("mujoco"))
    assert all(x in specifier for x in releases)
    assert not any(x in specifier for x in ("3.16.0", f"{releases[0]}.1", "5.0.0"))


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


def test_stub_says_what_lists_and_functions_hold():
    stub = ast.parse((PACKAGE / "_diffmj.pyi").read_text())
    inner = {id(x.value) for x in ast.walk(stub) if isinstance(x, ast.Subscript)}
    inner |= {id(x.func) for x in ast.walk(stub) if isinstance(x, ast.Call)}
    bare = ("list", "dict", "tuple", "set", "Callable", "Sequence")
    names = [x for x in ast.walk(stub) if isinstance(x, ast.Name) and id(x) not in inner]
    assert [f"{x.id}, line {x.lineno}" for x in names if x.id in bare] == []


EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
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
