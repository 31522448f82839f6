# SPDX-License-Identifier: Apache-2.0
"""Data parallel training in JAX: inside a compiled step, a callback all-reduces the gradients.

    tryst-run -n 2 python3 jax_step.py [STEPS]

jax.pure_callback may call back in any order and from any thread; names, not the order, decide what meets what, so each
gradient has a name of its own, and the first layer's is the most urgent. Needs jax (pip install jax)."""

import sys

import numpy

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    print("skipped: no jax here (pip install jax)")
    sys.exit(77)

import tryst

LAYERS, WIDTH, RATE = 3, 32, 0.05


def mean_over_ranks(group, layer, gradient):
    """The mean of all ranks' gradients of a layer, as an operation of a compiled function."""
    def call(value):
        return group.allreduce(numpy.array(value), op="average", name=f"layer {layer}", priority=layer).wait()

    return jax.pure_callback(call, jax.ShapeDtypeStruct(gradient.shape, gradient.dtype), gradient)


def loss_of(layers, x, y):
    for weights in layers[:-1]:
        x = jnp.tanh(x @ weights)
    return jnp.mean((x @ layers[-1] - y) ** 2)


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tryst.open() as group:
        @jax.jit
        def step(layers, x, y):
            loss, gradients = jax.value_and_grad(loss_of)(layers, x, y)
            means = [mean_over_ranks(group, i, one) for i, one in enumerate(gradients)]
            return [one - RATE * mean for one, mean in zip(layers, means)], loss

        random = numpy.random.default_rng(1)  # the same model on all ranks, and other data
        layers = [jnp.asarray(random.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)), "f4") for _ in range(LAYERS)]
        data = numpy.random.default_rng(2 + group.rank)
        losses = []
        for _ in range(steps):
            x = data.normal(size=(64, WIDTH)).astype("f4")
            layers, loss = step(layers, x, x)
            losses.append(float(loss))
        first = numpy.asarray(layers[0])
        same = group.allreduce(first.copy(), op="max").wait()
        assert (same == first).all(), "the ranks' models differ"
        if group.rank == 0:
            print(f"{group.size} ranks, {steps} steps: loss {losses[0]:.3f} to {losses[-1]:.3f}; equal models")


main()
