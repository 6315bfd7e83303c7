"""The nets of models/ as PyTorch modules, built from the same prototxt files, so that both programs
compute the same thing. What is not in those nets is an error that names it.

BatchNorm and the Scale behind it become one BatchNorm2d; ReLU works in place where the file has it so.
"""
import re

import torch
from torch import nn
from torch.nn import functional

TOKEN = re.compile(r'#[^\n]*|"[^"]*"|\'[^\']*\'|[{}\[\],:]|[^\s{}\[\],:#"\']+')


def parse(text):
    """A message as {field: [values]}; a value is a message, a string, or a number as text."""
    tokens = [t for t in TOKEN.findall(text) if not t.startswith("#") and t not in ",:"]
    position = 0

    def message():
        nonlocal position
        out = {}
        while position < len(tokens) and tokens[position] != "}":
            name = tokens[position]
            position += 1
            values = out.setdefault(name, [])
            if tokens[position] == "{":
                position += 1
                values.append(message())
                position += 1
            elif tokens[position] == "[":
                end = tokens.index("]", position)
                values.extend(t.strip("\"'") for t in tokens[position + 1:end])
                position = end + 1
            else:
                values.append(tokens[position].strip("\"'"))
                position += 1
        return out

    return message()


def one(message, name, default=None):
    return message[name][-1] if name in message else default


def number(message, name, default):
    return type(default)(one(message, name, default))


def training_layers(path):
    """The layers of the TRAIN phase, without data layers."""
    with open(path, encoding="utf-8") as file:
        net = parse(file.read())
    for layer in net["layer"]:
        phases = [one(rule, "phase") for rule in layer.get("include", [])]
        if "bottom" in layer and (not phases or "TRAIN" in phases):
            yield layer


class Net(nn.Module):
    """forward(images, labels) is the loss."""

    def __init__(self, path, image_shape):
        super().__init__()
        self.steps = []  # (function, bottoms, top)
        self.parts = nn.ModuleList()
        self.shapes = {"data": tuple(image_shape)}  # of one image
        self.norms = {}  # top of a BatchNorm -> the module that a Scale completes
        for layer in training_layers(path):
            self.add(layer)

    def add(self, layer):
        kind, bottoms, top = one(layer, "type"), layer["bottom"], one(layer, "top")
        shape = self.shapes.get(bottoms[0])
        make = getattr(self, "make_" + kind, None)
        if make is None:
            raise ValueError(f"layer type {kind} has no counterpart here")
        function = make(layer, shape)
        if function is None:
            return
        if isinstance(function, nn.Module):
            self.parts.append(function)
        self.steps.append((function, bottoms, top))
        if kind != "SoftmaxWithLoss":
            with torch.no_grad():
                function.eval() if isinstance(function, nn.Module) else None
                inputs = [torch.zeros(1, *self.shapes[b]) for b in bottoms]
                self.shapes[top] = tuple(function(*inputs).shape[1:])

    def forward(self, images, labels):
        values = {"data": images, "label": labels}
        for function, bottoms, top in self.steps:
            values[top] = function(*(values[b] for b in bottoms))
        return values[top]

    @staticmethod
    def make_Convolution(layer, shape):
        p = one(layer, "convolution_param")
        return nn.Conv2d(shape[0], number(p, "num_output", 0), number(p, "kernel_size", 0),
                         number(p, "stride", 1), number(p, "pad", 0), groups=number(p, "group", 1),
                         bias=one(p, "bias_term", "true") == "true")

    @staticmethod
    def make_InnerProduct(layer, shape):
        inputs = 1
        for dim in shape:
            inputs *= dim
        outputs = number(one(layer, "inner_product_param"), "num_output", 0)
        linear = nn.Linear(inputs, outputs)
        return linear if len(shape) == 1 else nn.Sequential(nn.Flatten(), linear)

    @staticmethod
    def make_Pooling(layer, shape):
        p = one(layer, "pooling_param")
        mean = one(p, "pool", "MAX") == "AVE"
        if one(p, "global_pooling", "false") == "true":
            return nn.AvgPool2d(shape[1:]) if mean else nn.MaxPool2d(shape[1:])
        ceil = one(p, "round_mode", "CEIL") == "CEIL"
        kind = nn.AvgPool2d if mean else nn.MaxPool2d
        return kind(number(p, "kernel_size", 0), number(p, "stride", 1), number(p, "pad", 0),
                    ceil_mode=ceil)

    @staticmethod
    def make_LRN(layer, _):
        p = one(layer, "lrn_param")
        return nn.LocalResponseNorm(number(p, "local_size", 5), number(p, "alpha", 1.0),
                                    number(p, "beta", 0.75), number(p, "k", 1.0))

    @staticmethod
    def make_ReLU(layer, _):
        return nn.ReLU(inplace=layer["bottom"] == layer["top"])

    @staticmethod
    def make_Dropout(layer, _):
        ratio = number(one(layer, "dropout_param", {}), "dropout_ratio", 0.5)
        return nn.Dropout(ratio)  # in place it would spoil what the ReLU before it keeps

    @staticmethod
    def make_Eltwise(layer, _):
        if one(one(layer, "eltwise_param", {}), "operation", "SUM") != "SUM":
            raise ValueError("Eltwise other than SUM has no counterpart here")
        return torch.add

    @staticmethod
    def make_SoftmaxWithLoss(_layer, _shape):
        return functional.cross_entropy

    def make_BatchNorm(self, layer, shape):
        eps = number(one(layer, "batch_norm_param", {}), "eps", 1e-5)
        self.norms[one(layer, "top")] = norm = nn.BatchNorm2d(shape[0], eps=eps)
        return norm

    def make_Scale(self, layer, _):
        if layer["bottom"][0] not in self.norms or layer["bottom"] != layer["top"]:
            raise ValueError("Scale without a BatchNorm before it has no counterpart here")
        return None  # weight and bias of the BatchNorm2d
