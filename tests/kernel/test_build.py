"""Loop programs of scalar programs give what replays give, and have the loops that the source had."""

import numpy as np

from tapegrad.kernel import ir
from tests.kernel.lowered import agree, loops


def points(*shapes, count=3):
    rng = np.random.default_rng(5)
    return [tuple(rng.uniform(0.5, 1.5, s) if s != () else float(rng.uniform(0.5, 1.5)) for s in shapes) for _ in range(count)]


def rosenbrock(x):
    total = 0.0
    for i in range(len(x) - 1):
        total = total + 100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2
    return total


def lotka_volterra(a, b, c, d, u, v):
    def slope(u, v):
        return a * u - b * u * v, d * u * v - c * v

    h = 0.01
    for _ in range(60):
        p1, q1 = slope(u, v)
        p2, q2 = slope(u + 0.5 * h * p1, v + 0.5 * h * q1)
        p3, q3 = slope(u + 0.5 * h * p2, v + 0.5 * h * q2)
        p4, q4 = slope(u + h * p3, v + h * q3)
        u = u + h / 6.0 * (p1 + 2.0 * p2 + 2.0 * p3 + p4)
        v = v + h / 6.0 * (q1 + 2.0 * q2 + 2.0 * q3 + q4)
    return u * v


def test_a_sum_over_neighbours_is_one_loop():
    program = agree(rosenbrock, *points(80))
    assert loops(program) == [78]


def test_a_recurrence_carries_its_state():
    program = agree(lotka_volterra, *points((), (), (), (), (), ()))
    (loop,) = [s for s in program.body if isinstance(s, ir.Loop)]
    assert len(loop.carries) == 2
    assert not any(isinstance(s, (ir.Load, ir.Store)) for s in loop.body)


def test_loops_in_loops():
    def function(x, y):
        total = 0.0
        for i in range(20):
            row = 1.0
            for j in range(70):
                row = row * 0.5 + x[i] * y[j]
            total = total + row * row
        return total

    assert loops(agree(function, *points(20, 70))) == [69, [19, 69]]


def test_a_matrix_by_elements():
    def function(a, x):
        total = 0.0
        for i in range(12):
            row = 0.0
            for j in range(20):
                row = row + a[i, j] * x[j]
            total = total + np.sin(row) * x[i]
        return total

    agree(function, *points((12, 20), 20))


def test_a_triangle():
    def function(a):
        total = 0.0
        for i in range(25):
            row = 1.0
            for j in range(i + 1):
                row = row + a[i, j] * a[j, i] * row
            total = total + row
        return total

    agree(function, *points((25, 25)))


def test_distance_two():
    def function(a, b):
        for _ in range(200):
            a, b = b, 0.3 * a + 0.6 * np.sin(b)
        return b

    agree(function, *points((), ()))


def test_distance_five():
    def function(x):
        values = [x[0], x[1], x[2], x[3], x[4]]
        for k in range(300):
            values.append(np.sin(values[k] + values[k + 4] * values[k + 2]))
        return values[-1] + values[150]

    agree(function, *points(5))


def test_two_phases_in_turn():
    def function(x):
        a, b = x[0], x[1]
        for _ in range(100):
            a, b = np.cos(b), a * 0.9
        return a + b

    agree(function, *points(2))


def test_newton_with_guards():
    def function(x):
        y = 1.0 + 0.0 * x
        steps = 0
        while abs(y * y - x) > 1e-12 and steps < 50:
            y = 0.5 * (y + x / y)
            steps += 1
        return y

    tape_points = [(3.0,), (3.01,), (300.0,), (1.0,)]
    agree(function, *tape_points)


def test_many_guards_have_their_own_numbers():
    def function(x, t):
        total = 0.0
        for i in range(100):
            total = total + x[i] * x[i]
            if x[i] < t:
                total = total * 1.01
        return total

    x = np.linspace(0.5, 1.5, 100)
    later = x.copy()
    later[37] = 9.0
    program = agree(function, (x, 5.0), (x, 5.1), (later, 5.0), (x, 1.0))
    guards = [s for s in ir.walk(program.body) if isinstance(s, ir.Guard)]
    assert any(not isinstance(g.number, int) for g in guards)


def test_exact_guards_differ_from_iteration_to_iteration():
    def function(x):
        total = 0.0
        for i in range(60):
            total = total + x[i] * float(x[i].detach().item() > 0.7)
            x[i].item()
        return total

    x = np.linspace(0.5, 1.5, 60)
    other = x.copy()
    other[13] = 0.55
    agree(function, (x,), (other,))


def test_constants_of_a_table():
    coefficients = np.random.default_rng(1).normal(size=200).tolist()

    def function(x):
        total = 0.0
        for c in coefficients:
            total = total * x + c
        return total

    assert loops(agree(function, *points(()))) == [199]


def test_constants_of_the_inner_loop():
    weights = np.random.default_rng(1).normal(size=90).tolist()

    def function(x):
        total = 0.0
        for i in range(20):
            for w in weights:
                total = np.sin(total) + w * x[i]
            total = total / x[0]
        return total

    program = agree(function, *points(20))
    tables = [s.buffer.size for s in ir.walk(program.body) if isinstance(s, ir.Load) and s.buffer.role == ir.CONSTANT]
    assert tables and max(tables) <= 90


def test_elements_in_any_order():
    order = np.random.default_rng(2).permutation(150).tolist()

    def function(x):
        total = 0.0
        for k in order:
            total = np.tanh(total) + x[k] * x[(7 * k) % 150]
        return total

    agree(function, *points(150))


def test_values_read_in_any_order_later():
    order = np.random.default_rng(2).permutation(150).tolist()

    def function(x):
        values = [np.exp(x[i]) for i in range(150)]
        total = 0.0
        for k in order:
            total = np.tanh(total) + values[k] * values[149 - k]
        return total

    agree(function, *points(150))


def test_values_of_several_kinds_read_in_turn():
    def function(x):
        values = [np.exp(x[0]), np.sin(x[1]), x[2], x[3] * x[3]]
        for k in range(100):
            values.append(values[k] * 0.5 + values[k + 2])
        total = 0.0
        for k in range(104):
            total = total + values[(3 * k) % 104] * x[k % 10]
        return total

    agree(function, *points(10))


def test_a_loop_that_goes_back():
    def function(x):
        values = [np.exp(x[0])]
        for k in range(100):
            values.append(values[-1] * 0.9 + x[k])
        total = 0.0
        for k in reversed(range(100)):
            total = total * values[k] + x[k]
        return total

    agree(function, *points(100))


def test_values_from_the_middle_of_a_loop():
    def function(x):
        values = []
        y = x
        for _ in range(100):
            y = np.sin(y) + 0.1
            values.append(y)
        return values[30] * values[99] + values[50]

    agree(function, *points(()))


def test_what_is_selected():
    def function(x):
        total = 0.0
        for i in range(60):
            total = total + np.where(x[i] > 1.0, x[i] * total, 0.5) + np.clip(total, 0.1, 2.0)
        return total

    agree(function, *points(60))


def test_several_results_and_constants():
    def function(x, y):
        return x * y, 3.0, x, y + 1.0, y + 1.0

    agree(function, *points((), ()))


def test_one_iteration_in_many():
    def function(x):
        total = 0.0
        for i in range(3):
            for j in range(50):
                for k in range(1 + (i + j) % 3):
                    total = total * 0.9 + x[(i + j + k) % 20]
        return total

    agree(function, *points(20))
