"""Exit codes and error output: mistakes of the user, errors of the operating system, bugs, interruption; fast help."""

import errno
import os
import subprocess
import sys
import typing
import warnings

import pytest

from setpredict.cli import commands
from setpredict.cli.main import COMMANDS, LISTS, REPORT, joined, main, run
from setpredict.core.errors import NotFinite, UserError

FRESH = [sys.executable, "-m", "setpredict"]


@pytest.fixture
def failing(monkeypatch):
    """`setpredict report x` raises the given exception."""

    def prepare(error: BaseException) -> None:
        def report(runs: tuple[str, ...] = ()) -> None:
            raise error

        monkeypatch.setitem(COMMANDS, "report", report)

    return prepare


@pytest.mark.parametrize("error", [UserError("the file x is missing"), NotFinite("the loss is nan")])
def test_a_mistake_of_the_user_is_one_line(failing, capsys, error):
    failing(error)
    assert run(["report"]) == 2
    assert capsys.readouterr().err == f"setpredict: {error}\n"


@pytest.mark.parametrize(
    "error",
    [ValueError("boom"), KeyError("boom"), TypeError("boom"), AssertionError(), RuntimeError("boom"), OSError("boom")],
    ids=lambda error: type(error).__name__,
)
def test_a_bug_is_not_a_mistake_of_the_user(failing, error):
    failing(error)
    with pytest.raises(type(error)) as raised:
        run(["report"])
    assert raised.value is error
    assert raised.value.__notes__ == [REPORT]


def test_a_bug_shows_its_traceback_and_asks_for_a_report():
    code = """
from setpredict.cli import main

def report() -> None:
    raise KeyError("boom")

main.COMMANDS["report"] = report
main.sys.argv[1:] = ["report"]
main.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    lines = done.stderr.rstrip().splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "KeyError: 'boom'" in lines
    assert lines[-1] == REPORT.strip()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_an_error_of_the_operating_system_is_one_line(failing, capsys, number):
    failing(OSError(number, os.strerror(number), "runs/a"))
    assert run(["report"]) == 2
    err = capsys.readouterr().err
    assert err == f"setpredict: [Errno {number}] {os.strerror(number)}: 'runs/a'\n"


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, capsys):
    """Also for root, whom permissions do not stop: a file is in the place of the folder."""
    (tmp_path / "file").write_text("")
    words = ["train", "multisets", "--latent", "4", "--max-steps", "1", "--threads", "1"]
    assert run([*words, "--out", str(tmp_path / "file"), "--name", "a"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("setpredict: ")
    assert os.strerror(errno.ENOTDIR) in err
    assert str(tmp_path / "file") in err
    assert err.count("\n") == 1


def test_a_read_only_folder_is_one_line(tmp_path, capsys):
    if os.geteuid() == 0:
        pytest.skip("root can write to read-only folders")
    tmp_path.chmod(0o500)
    assert run(["train", "multisets", "--latent", "4", "--max-steps", "1", "--out", str(tmp_path), "--name", "a"]) == 2
    err = capsys.readouterr().err
    assert os.strerror(errno.EACCES) in err
    assert err.count("\n") == 1


def test_debugging_shows_the_traceback_of_a_mistake(failing, monkeypatch):
    failing(UserError("the file x is missing"))
    monkeypatch.setenv("SETPREDICT_DEBUG", "1")
    with pytest.raises(UserError, match="the file x is missing"):
        run(["report"])


def test_an_interruption_has_its_own_exit_code(failing, capsys):
    failing(KeyboardInterrupt())
    assert run(["report"]) == 130
    assert capsys.readouterr().err == "Stopped.\n"


def test_the_web_page_without_its_packages(capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "setpredict.web.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["serve"]) == 2
    assert capsys.readouterr().err.startswith("setpredict: the web page needs uvicorn: pip install")


def test_every_command_is_a_function_with_documented_arguments():
    for name, command in COMMANDS.items():
        assert command.__doc__, name
    functions = {f for f in vars(commands).values() if getattr(f, "__module__", None) == commands.__name__}
    assert functions - set(COMMANDS.values()) == set(), "functions that are not commands"


def test_help_names_every_command():
    done = subprocess.run([*FRESH, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for command in COMMANDS:
        assert command in done.stdout, f"{command} is not in the help"


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["train", "--help"], ["train", "mnist", "--help"]])
def test_help_imports_nothing_heavy(words):
    code = f"""
import sys
from setpredict.cli.main import run
try:
    run({words!r})
except SystemExit as stopped:
    assert not stopped.code, stopped.code
heavy = {{"torch", "numpy", "numba", "matplotlib", "lightning_fabric", "fastapi", "PIL"}} & set(sys.modules)
print(*sorted(heavy), file=sys.stderr, end="")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_every_help_text_works(capsys):
    for command in COMMANDS:
        with pytest.raises(SystemExit) as stopped:
            run([*command.split(), "--help"])
        assert stopped.value.code == 0, command
        text = capsys.readouterr().out
        assert f"setpredict {command}" in text
        assert ">>>" not in text  # the examples of docstrings are for Python


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("serve --run A --port 1 --run B", "serve --run A B --port 1"),
        ("reproduce --rows A B mnist", "reproduce --rows A B mnist"),
        ("reproduce mnist --rows A B --runs 2 --rows=C", "reproduce mnist --rows A B C --runs 2"),
        ("plot --steps=1 RUN --steps=2 --samples 0", "plot RUN --steps 1 2 --samples 0"),
        ("train points --lr 1 --lr 2 --name=x", "train points --lr 1 --lr 2 --name=x"),
        ("predict M f --steps 5 --steps 7", "predict M f --steps 5 --steps 7"),
        ("-h", "-h"),
    ],
)
def test_values_of_a_list_may_be_given_one_by_one(given, expected):
    assert joined(given.split()) == expected.split()


def test_every_list_of_a_command_may_be_given_one_by_one():
    for command, function in COMMANDS.items():
        hints = typing.get_type_hints(function, include_extras=True)
        lists = {f"--{name.replace('_', '-')}" for name, hint in hints.items() if is_list(hint)}
        assert lists == LISTS.get(command, set()) - {"--methods"}


def is_list(hint) -> bool:
    """Whether it is `tuple[X, ...]`, or that or None; positional arguments are Annotated."""
    parts = (hint, *typing.get_args(hint)) if typing.get_origin(hint) is not typing.Annotated else ()
    return any(typing.get_origin(part) is tuple for part in parts)


def test_all_of_several_lists_arrive(monkeypatch):
    seen = []

    def plot(samples: tuple[int, ...] = (), steps: tuple[int, ...] = ()) -> None:
        seen.append((samples, steps))

    monkeypatch.setitem(COMMANDS, "plot", plot)
    assert run(["plot", "--samples", "0", "--steps", "1", "--samples", "3", "--steps=2"]) == 0
    assert seen == [((0, 3), (1, 2))]


def test_a_warning_is_one_line_and_said_once(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["setpredict", "--version"])
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with pytest.raises(SystemExit):
            main()
        for text in ("skipped 1 of 6 images", "skipped 1 of 6 images", "Glyph 1 missing", "Glyph 2 missing"):
            warnings.warn(text, stacklevel=1)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "setpredict: skipped 1 of 6 images"
    assert "lacks some letters" in second
