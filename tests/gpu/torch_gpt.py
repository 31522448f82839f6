#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The model of pp_bench's GPT in PyTorch, trained on one device, for comparison.

Same layers, shapes, data type and work in a step: micro-batches one after the other, their
gradients added, then one fused Adam step; bf16 means fp32 weights under autocast, as is usual.
Prints one line of JSON: tokens a second (median of the timed steps), first and last loss, peak
bytes. --compile uses torch.compile. If it cannot run, it prints the reason and exits with 77.
"""
import argparse
import json
import statistics
import sys
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("layers", 12), ("hidden", 768), ("heads", 12), ("seq", 1024),
                          ("microbatches", 4), ("microbatch-size", 8), ("steps", 10),
                          ("warmup", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtype", choices=("bf16", "fp32", "tf32"), default="bf16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--data", help="text to learn; the numbers are the same without")
    return parser.parse_args()


def model_of(torch, args):
    nn = torch.nn
    functional = torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            hidden = args.hidden
            self.norm1 = nn.LayerNorm(hidden)
            self.qkv = nn.Linear(hidden, 3 * hidden)
            self.project = nn.Linear(hidden, hidden)
            self.norm2 = nn.LayerNorm(hidden)
            self.up = nn.Linear(hidden, 4 * hidden)
            self.down = nn.Linear(4 * hidden, hidden)

        def forward(self, x):
            batch, seq, hidden = x.shape
            parts = self.qkv(self.norm1(x)).view(batch, seq, 3, args.heads, hidden // args.heads)
            q, k, v = (parts[:, :, i].transpose(1, 2) for i in range(3))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.project(y.transpose(1, 2).reshape(batch, seq, hidden))
            return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(256, args.hidden)
            self.position = nn.Embedding(args.seq, args.hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(args.layers))
            self.norm = nn.LayerNorm(args.hidden)
            self.head = nn.Linear(args.hidden, 256, bias=False)
            self.register_buffer("places", torch.arange(args.seq), persistent=False)

        def forward(self, inputs, targets):
            x = self.token(inputs) + self.position(self.places)
            for block in self.blocks:
                x = block(x)
            logits = self.head(self.norm(x))
            return functional.cross_entropy(logits.view(-1, 256).float(), targets.view(-1))

    torch.manual_seed(0)
    return Gpt().to(args.device)


def batches_of(torch, args):
    """Micro-batches of one step, the same for every step: their content costs nothing."""
    if args.data:
        with open(args.data, "rb") as file:
            text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    else:
        text = torch.randint(0, 256, (1 << 20,))
    starts = torch.randint(0, len(text) - args.seq - 1,
                           (args.microbatches, args.microbatch_size))
    rows = [torch.stack([text[s:s + args.seq + 1] for s in starts[m]])
            for m in range(args.microbatches)]
    return [(r[:, :-1].contiguous().to(args.device), r[:, 1:].contiguous().to(args.device))
            for r in rows]


def train(torch, args):
    on_gpu = args.device.startswith("cuda")
    torch.set_float32_matmul_precision("high" if args.dtype == "tf32" else "highest")
    model = model_of(torch, args)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=on_gpu)
    loss_of = torch.compile(model) if args.compile else model
    batches = batches_of(torch, args)
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    seconds, losses = [], []
    for _ in range(args.warmup + args.steps):
        wait()
        begin = time.perf_counter()
        total = 0
        for inputs, targets in batches:
            with torch.autocast(args.device.split(":")[0], torch.bfloat16,
                                enabled=args.dtype == "bf16"):
                loss = loss_of(inputs, targets) / args.microbatches
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(total))
        wait()
        seconds.append(time.perf_counter() - begin)
    timed = seconds[args.warmup:]
    tokens = args.microbatches * args.microbatch_size * args.seq
    return {"torch": torch.__version__, "compiled": args.compile, "dtype": args.dtype,
            "step_s": statistics.median(timed), "step_s_least": min(timed),
            "step_s_most": max(timed), "tokens_per_s": tokens / statistics.median(timed),
            "loss_first": losses[0], "loss_last": losses[-1],
            "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else 0}


def main():
    args = arguments()
    try:
        import torch
    except ImportError as error:
        print(f"torch_gpt: not run: {error}", file=sys.stderr)
        return 77
    if args.device.startswith("cuda") and not torch.cuda.is_available():
        print("torch_gpt: not run: this PyTorch finds no GPU", file=sys.stderr)
        return 77
    print(json.dumps(train(torch, args)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
