"""The posterior of an ordinary differential equation: effective samples a second by `tg.sample`, beside NumPyro's sampler.

Both have the same density, and one core. What is compiled is compiled before; of ours the time has the search of the mode and the
recording of the density in it. The smallest of the effective sizes counts, as ArviZ estimates them.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import tapegrad as tg
from tapegrad.demo import read_pelts

from .registry import Disagreement, Missing, Row, benchmark, jax_pinned, peer
from .timing import of


def example():
    """``examples/posterior.py``."""
    spec = importlib.util.spec_from_file_location("posterior", Path(__file__).parents[1] / "examples" / "posterior.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ours(model, data, draws: int) -> Callable:
    def run(seed):
        bounds = dict.fromkeys(model.START, (0.0, None))
        idata = tg.sample(model.pelts, model.START, *data, bounds=bounds, draws=draws, cores=1, seed=seed, progress=False)
        steps = sum(int(part["n_steps"].sum()) for part in (idata.sample_stats, idata.warmup_sample_stats))
        return {name: np.asarray(idata.posterior[name]) for name in model.START}, steps

    return run


def numpyro(model, data, draws: int) -> Callable:
    """Its NUTS with its defaults; the loops of the equation are scans, without which it compiles for minutes."""
    jax, package = jax_pinned(), peer("numpyro")
    jnp, infer, distributions = jax.numpy, peer("numpyro.infer"), peer("numpyro.distributions")
    hares, lynxes = map(jnp.asarray, data)

    def density(p):
        def year(state, _):
            state = jax.lax.scan(lambda s, _: (model.grown(*s, p, 1.0 / model.STEPS), None), state, None, model.STEPS)[0]
            return state, jnp.stack(state)

        begin = p["hares"], p["lynxes"]
        sizes = jnp.concatenate([jnp.stack(begin)[None], jax.lax.scan(year, begin, None, len(hares) - 1)[1]])

        def lognormal(x, centre, sd):
            return -0.5 * ((jnp.log(x) - centre) / sd) ** 2 - jnp.log(sd) - jnp.log(x)

        total = -2.0 * (p["alpha"] - 1.0) ** 2 - 2.0 * (p["gamma"] - 1.0) ** 2 - 200.0 * (p["beta"] - 0.05) ** 2 - 200.0 * (p["delta"] - 0.05) ** 2
        total += lognormal(p["sd_hares"], -1.0, 1.0) + lognormal(p["sd_lynxes"], -1.0, 1.0)
        total += lognormal(p["hares"], jnp.log(10.0), 1.0) + lognormal(p["lynxes"], jnp.log(10.0), 1.0)
        total += jnp.sum(lognormal(hares, jnp.log(sizes[:, 0]), p["sd_hares"]))
        return total + jnp.sum(lognormal(lynxes, jnp.log(sizes[:, 1]), p["sd_lynxes"]))

    def sites():
        improper = distributions.ImproperUniform(distributions.constraints.positive, (), ())
        package.factor("density", density({name: package.sample(name, improper) for name in model.START}))

    start = {name: jnp.asarray(value) for name, value in model.START.items()}
    sampler = infer.MCMC(
        infer.NUTS(sites, init_strategy=infer.init_to_value(values=start)), num_warmup=400, num_samples=draws, num_chains=4,
        chain_method="sequential", progress_bar=False,
    )  # fmt: skip

    def run(seed):
        sampler.run(jax.random.PRNGKey(seed), extra_fields=("num_steps",))
        found = sampler.get_samples(group_by_chain=True)
        return {name: np.asarray(found[name]) for name in model.START}, int(sampler.get_extra_fields()["num_steps"].sum())

    return run


def smallest(arviz, draws) -> float:
    """The smallest effective size of all parameters."""
    return min(float(arviz.ess(values)) for values in draws.values())


@benchmark(name="samples")
def samples(quick: bool) -> Iterator[Row]:
    """Draws from the posterior of an ordinary differential equation: effective samples a second, beside NumPyro."""
    what, promise = "effective samples a second of an ODE's posterior, NumPyro over tapegrad", "at most 1/1.5"
    try:
        arviz = peer("arviz")
        peer("nutpie")
    except Missing as reason:
        yield Row(what, promise, skip=str(reason))
        return
    warnings.simplefilter("ignore")
    model, draws = example(), 200 if quick else 1000
    data = read_pelts()[1:]
    runs, missing = {"tapegrad": ours(model, data, draws)}, {}
    try:
        runs["NumPyro"] = numpyro(model, data, draws)
    except Missing as reason:
        missing["NumPyro"] = str(reason)
    rates, details, means, times = {}, {}, {}, {}
    for name, run in runs.items():
        run(0)
        found = []
        for seed in range(1, 2 if quick else 4):
            begin = time.perf_counter()
            drawn, steps = run(seed)
            seconds = time.perf_counter() - begin
            found.append((smallest(arviz, drawn) / seconds, seconds, steps))
        rates[name] = float(np.median([rate for rate, _, _ in found]))
        times[name] = of([seconds for _, seconds, _ in found])
        details[f"{name}, effective samples a second"] = round(rates[name])
        means[name] = np.array([values.mean() for values in drawn.values()])
        spread = np.array([values.std() for values in drawn.values()])
        if name == "tapegrad":
            details["share of the gradients in the time"] = f"{100.0 * steps * _gradient(model, data) / seconds:.0f} %"
    if "NumPyro" not in rates:
        yield Row(what, promise, skip=missing["NumPyro"])
        return
    if (np.abs(means["NumPyro"] - means["tapegrad"]) > 0.2 * spread).any():
        raise Disagreement(f"means of the posterior: {means}")
    yield Row(what, promise, rates["NumPyro"] / rates["tapegrad"], 1.0 / 1.5, detail=details, times=times)


def _gradient(model, data) -> float:
    """Seconds of a gradient of the density."""
    slope, point = tg.jit(tg.value_and_grad(lambda x: model.pelts(dict(zip(model.START, x)), *data))), np.array(list(model.START.values()))
    for _ in range(100):
        slope(point)
    begin = time.perf_counter()
    for _ in range(1000):
        slope(point)
    return (time.perf_counter() - begin) / 1000
