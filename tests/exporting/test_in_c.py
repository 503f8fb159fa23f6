"""Exported functions in C programs: their numbers to the bit, and a status for each guard and for each wrong caller."""

import shutil
import subprocess

import numpy as np
import pytest

import tapegrad as tg
from tests.every import every
from tests.exporting.test_export import CASES, GUARDED, OFF, ON

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def run(folder, main, made):
    """What a C program prints that is linked with exported functions."""
    (folder / "main.c").write_text(main)
    libraries = ["-lmvec"] * any(name.startswith("_ZGV") for one in made for name in one.symbols) + ["-lm"]
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "main.c", *(one.object.name for one in made), "-o", "main", *libraries]
    subprocess.run(command, cwd=folder, check=True)
    return subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout.splitlines()


def included(made):
    return "#include <stdio.h>\n" + "".join(f'#include "{one.header.name}"\n' for one in made)


NUMBERS = r"""
static unsigned char workspace[SIZE];
int main(void) {
    double x[LENGTH] = {VALUES}, value = -7, gradient[LENGTH], hessian[LENGTH * LENGTH];
    printf("%d\n", all(x, &value, gradient, hessian, workspace, sizeof workspace));
    printf("%a\n", value);
    for (int i = 0; i < LENGTH; i++) printf("%a\n", gradient[i]);
    for (int i = 0; i < LENGTH * LENGTH; i++) printf("%a\n", hessian[i]);
    return 0;
}
"""


@every("name, cpu, vector_math", [(name, *how) for name in sorted(CASES) for how in (("host", True), ("x86-64", False))])
def test_value_gradient_and_hessian(name, cpu, vector_math, tmp_path):
    f, x = CASES[name]

    def all_three(x):
        return f(x), tg.grad(f)(x), tg.hessian(f)(x)

    other, compiled = 1.01 * x, tg.jit(all_three, kernel="always")
    for _ in range(2):
        expected = np.concatenate([np.ravel(part) for part in compiled(other)])
    made = tg.export(all_three, x, tmp_path / "all", cpu=cpu, vector_math=vector_math)
    main = NUMBERS.replace("SIZE", "ALL_WORKSPACE").replace("LENGTH", str(len(x))).replace("VALUES", ", ".join(map(float.hex, other)))
    status, *numbers = run(tmp_path, included([made]) + main, [made])
    found = np.array([float.fromhex(number) for number in numbers])
    assert status == "0"
    if cpu == "host" and vector_math and not made.routines:
        assert found.tobytes() == expected.tobytes()
    for start, stop in ((0, 1), (1, 1 + len(x)), (1 + len(x), len(found))):
        scale = np.abs(expected[start:stop]).max()
        np.testing.assert_allclose(found[start:stop] / scale, expected[start:stop] / scale, rtol=0.0, atol=1e-13)


def counted(x):
    """A number of iterations that the data say."""
    total = x[1]
    for _ in range(int(x[0].item()) + 4):
        total = total * x[2]
    return total


def signs(x):
    """A whole array of decisions."""
    return np.sum(x[1:]) if (x > 0.0).tolist() == [True] * 3 else np.sum(x)


ALL = {**GUARDED, "counted": counted, "signs": signs, "root": lambda x: np.sum(np.sqrt(x))}
CALL = r"""
    value = gradient[0] = gradient[1] = gradient[2] = -7;
    status = NAME(on, &value, gradient, workspace, sizeof workspace);
    printf("NAME %d %g\n", status, value);
    value = gradient[0] = gradient[1] = gradient[2] = -7;
    status = NAME(off, &value, gradient, workspace, sizeof workspace);
    printf("NAME %d %g %g %s\n", status, value, gradient[0] + gradient[1] + gradient[2], NAME_message(status));
"""


def test_each_kind_of_guard_off_the_recorded_path(tmp_path):
    made = [tg.export(tg.value_and_grad(f), ON, tmp_path / name) for name, f in ALL.items()]
    main = "static unsigned char workspace[SIZE];\nint main(void) {\n    int status;\n    double on[3] = {ON}, off[3] = {OFF}, value, gradient[3];"
    for name, numbers in (("SIZE", [max(one.workspace for one in made)]), ("ON", ON), ("OFF", OFF)):
        main = main.replace(f"[{name}]", f"[{numbers[0]}]").replace(f"{{{name}}}", f"{{{', '.join(map(str, numbers))}}}")
    lines = run(tmp_path, included(made) + main + "".join(CALL.replace("NAME", name) for name in ALL) + "    return 0;\n}\n", made)
    for (name, f), inside, outside in zip(ALL.items(), lines[::2], lines[1::2], strict=True):
        _, status, value = inside.split()
        assert status == "0" and float(value) == pytest.approx(f(ON), rel=1e-5), name
        _, status, value, slopes, message = outside.split(" ", 4)
        assert int(status) != 0 and (value, slopes) == ("-7", "-21"), name
        if name in ("mask", "index"):
            assert "outside of its array" in message
        elif name == "root":
            assert int(status) == -5 and "not a number" in message
        else:
            assert int(status) > 0 and ("test_export.py" in message or "test_in_c.py" in message), name


WRONG = r"""
#define TRY(wanted, call) value = g[0] = -7; status = call; printf("%d %g %g\n", status == wanted, value, g[0]);
static unsigned char w[F_WORKSPACE + 1];
int main(void) {
    int status;
    double x[3] = {1, 2, 3}, value, g[3];
    const void *given[] = {x, &value, g};
    TRY(F_NULL_ARGUMENT, f(NULL, &value, g, w, sizeof w))
    TRY(F_NULL_ARGUMENT, f(x, NULL, g, w, sizeof w))
    TRY(F_NULL_ARGUMENT, f(x, &value, NULL, w, sizeof w))
    TRY(F_NULL_ARGUMENT, f(x, &value, g, NULL, sizeof w))
    TRY(F_NULL_ARGUMENT, f_call(F_CHECKSUM, NULL, w, sizeof w))
    TRY(F_TOO_SMALL, f(x, &value, g, w, F_WORKSPACE - 1))
    TRY(F_TOO_SMALL, f(x, &value, g, w, 0))
    TRY(F_OTHER_HEADER, f_call(F_CHECKSUM + 1, given, w, sizeof w))
    TRY(F_OK, f(x, &value, g, w + 1, F_WORKSPACE))
    return 0;
}
"""


def test_wrong_callers(tmp_path):
    made = tg.export(tg.value_and_grad(lambda x: np.sum(x**3)), ON, tmp_path / "f")
    *wrong, right = run(tmp_path, included([made]) + WRONG, [made])
    assert wrong == ["1 -7 -7"] * 8 and right == "1 36 3"


def test_arguments_with_the_names_of_the_headers_own(tmp_path):
    def f(given, workspace, size):
        return np.sum(given * workspace) * size

    made = tg.export(tg.grad(f, argnums=2), (ON, ON, 2.0), tmp_path / "f")
    main = "int main(void) { static char w[F_WORKSPACE]; double x[3] = {1, 2, 3}, y = -1, z = -1; int s = f(x, x, 2.0, &y, &z, w, sizeof w); "
    assert run(tmp_path, included([made]) + main + r'printf("%d %g %g\n", s, y, z); return 0; }', [made]) == ["0 28 14"]


def test_arguments_with_names_that_a_language_reserves(tmp_path):
    """A dict may have any, of C and of C++."""
    words = "int namespace explicit xor linux uint64_t NULL true nullptr asm typeof".split()
    made = tg.export(lambda p: sum(p.values()), dict.fromkeys(words, 1.0), tmp_path / "f")
    (tmp_path / "header.c").write_text('#include "f.h"\n')
    for command in (["gcc", "-x", "c", "-std=gnu17"], ["g++", "-x", "c++"]):
        if shutil.which(command[0]):
            done = subprocess.run([*command, "-fsyntax-only", "-Wall", "-Werror", "header.c"], cwd=tmp_path, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
    assert len(made.header.read_text().split("static inline")[1].split("{")[0].split("double p_")) == len(words) + 1
