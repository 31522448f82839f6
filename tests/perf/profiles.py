#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a training step of a known model as a profile (include/tryst/profile.h), for tryst-perf sched.

usage: profiles.py vgg16|resnet50|gpt2|bert-large|ddp [--seconds S] [--bytes B]

One idea: a model is a list of layers, each with its parameters and the floating-point operations of its forward pass,
both computed from the architecture. The backward pass runs through the layers in reverse and costs twice the forward
pass of the same layer; the forward pass of the next step follows. Both together take S seconds (default: 1; ddp: 0.4).
With --bytes all tensors are scaled by one factor to B bytes together.
A layer's gradient, 4 bytes a parameter, is one operation: after the layer's backward and before its next forward. A
convolution and the batch norm behind it are one layer, and a linear layer includes the layer norm at its input (GPT-2)
or output (BERT).

  vgg16       Simonyan & Zisserman 2014, configuration D, 224 x 224: 138.36 M parameters
  resnet50    He et al. 2015, with the sizes of torchvision, 224 x 224: 25.56 M
  gpt2        Radford et al. 2019, the smallest model, 1024 tokens, output layer tied to the embedding: 124.44 M
  bert-large  Devlin et al. 2018, 512 tokens; encoder and pooler without the heads of pre-training: 335.14 M
  ddp         the 161 tensors of resnet50, one operation for each, all scaled by one factor to 33.6 MB together
"""
import argparse
import json
import sys

DDP_BYTES = 33.6e6


class Layer:
    """A layer: name, floating-point operations of its forward pass, parameters of each of its tensors."""

    def __init__(self, name, flops, *tensors):
        self.name, self.flops, self.tensors = name, flops, list(tensors)


def vgg16():
    layers, side, channels = [], 224, 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            weights = 9 * channels * width
            layers.append(Layer(f"conv{len(layers) + 1}", 2 * weights * side * side, weights, width))
            channels = width
        side //= 2  # max pool
    channels *= side * side
    for width in (4096, 4096, 1000):
        layers.append(Layer(f"fc{len(layers) + 1}", 2 * channels * width, channels * width, width))
        channels = width
    return layers


def conv_norm(name, kernel, channels, width, side):
    """A convolution without bias, and the batch norm behind it with scale and shift; `side` is that of the output."""
    weights = kernel * kernel * channels * width
    return [Layer(name, 2 * weights * side * side, weights),
            Layer(name + ".norm", 2 * width * side * side, width, width)]


def resnet50_parts():
    """The layers of ResNet-50, batch norms apart."""
    parts, channels, side = conv_norm("conv1", 7, 3, 64, 112), 64, 56
    for stage, (width, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 1):
        for block in range(count):
            name, before = f"layer{stage}.{block}", side
            if block == 0 and stage > 1:
                side //= 2
            parts += conv_norm(name + ".conv1", 1, channels, width, before)
            parts += conv_norm(name + ".conv2", 3, width, width, side)
            parts += conv_norm(name + ".conv3", 1, width, 4 * width, side)
            if block == 0:
                parts += conv_norm(name + ".downsample", 1, channels, 4 * width, side)
            channels = 4 * width
    return parts + [Layer("fc", 2 * channels * 1000, channels * 1000, 1000)]


def resnet50():
    layers = []
    for part in resnet50_parts():
        if part.name.endswith(".norm"):
            layers[-1].flops += part.flops
            layers[-1].tensors += part.tensors
        else:
            layers.append(part)
    return layers


def gpt2():
    width, vocabulary, tokens, layers = 768, 50257, 1024, []
    layers.append(Layer("embedding", 2 * tokens * width, vocabulary * width, tokens * width))
    for block in range(12):
        layers += transformer(f"h.{block}", width, tokens, norms_in=True)
    return layers + [Layer("output", 2 * tokens * width * vocabulary, 2 * width)]


def bert_large():
    width, tokens, layers = 1024, 512, []
    # tokens, positions, two segments, and a layer norm
    layers.append(Layer("embedding", 2 * tokens * width, (30522 + 512 + 2 + 2) * width))
    for block in range(24):
        layers += transformer(f"layer.{block}", width, tokens, norms_in=False)
    return layers + [Layer("pooler", 2 * width * width, width * width, width)]


def transformer(name, width, tokens, norms_in):
    """A block: attention and a perceptron, four linear layers. The products of queries with keys, and of weights with
    values, count with the first one."""

    def linear(part, inputs, outputs, norm, flops=0):
        return Layer(f"{name}.{part}", 2 * tokens * inputs * outputs + flops, inputs * outputs, outputs,
                     *([2 * width] if norm else []))

    return [linear("qkv", width, 3 * width, norms_in, 4 * tokens * tokens * width),
            linear("attention", width, width, not norms_in),
            linear("up", width, 4 * width, norms_in),
            linear("down", 4 * width, width, not norms_in)]


def scaled(layers, total_bytes):
    """The layers with each tensor scaled to its share of `total_bytes`."""
    factor = total_bytes / 4 / sum(sum(layer.tensors) for layer in layers)
    for layer in layers:
        layer.tensors = [max(1, round(factor * size)) for size in layer.tensors]
    return layers


def ddp():
    return scaled(resnet50_parts(), DDP_BYTES)


def profile(layers, seconds, is_by_tensor):
    """The step as nodes: backward, gradients, forward."""
    unit = seconds / 3 / sum(layer.flops for layer in layers)
    nodes, before, gradients = [], [], {}
    for layer in reversed(layers):
        backward = f"backward {layer.name}"
        nodes.append({"name": backward, "seconds": 2 * unit * layer.flops, "after": before})
        sizes = layer.tensors if is_by_tensor else [sum(layer.tensors)]
        names = [f"gradient {layer.name}" + (f" {i}" if len(sizes) > 1 else "") for i in range(len(sizes))]
        nodes += [{"name": name, "bytes": 4 * size, "after": [backward]} for name, size in zip(names, sizes)]
        gradients[layer.name] = names
        before = [backward]
    for layer in layers:
        forward = f"forward {layer.name}"
        nodes.append({"name": forward, "seconds": unit * layer.flops, "after": before + gradients[layer.name]})
        before = [forward]
    return nodes


MODELS = {"vgg16": vgg16, "resnet50": resnet50, "gpt2": gpt2, "bert-large": bert_large, "ddp": ddp}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--seconds", type=float, help="computation of the step (1; ddp: 0.4)")
    parser.add_argument("--bytes", type=float, help="bytes of all gradients together (those of the model)")
    options = parser.parse_args()
    seconds = options.seconds or (0.4 if options.model == "ddp" else 1.0)
    if not 0 < seconds < 1e6:
        parser.error(f"--seconds {seconds}: must be above 0 and below a million")
    layers = MODELS[options.model]()
    if options.bytes is not None:
        if not 4 <= options.bytes < 1e15:
            parser.error(f"--bytes {options.bytes}: must be at least 4 and below 1e15")
        layers = scaled(layers, options.bytes)
    nodes = profile(layers, seconds, options.model == "ddp")
    lines = ",\n  ".join(json.dumps(node) for node in nodes)
    sys.stdout.write('{"tryst_profile": 1,\n "nodes": [\n  ' + lines + "]}\n")


if __name__ == "__main__":
    main()
