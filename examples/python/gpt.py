"""A small GPT on characters: a configuration, gradient accumulation, warm-up and cosine decay, checkpoints, --resume,
sampling.

python gpt.py --text FILE --out FOLDER [--resume] [--set n_layer=4 learning_rate=3e-4]
"""

import argparse
import json
import math
import os
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields

import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class Config:
    block_size: int = 64
    vocab_size: int = 0
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 64
    dropout: float = 0.1
    bias: bool = False
    batch_size: int = 8
    accumulation: int = 2
    max_iters: int = 60
    warmup_iters: int = 5
    learning_rate: float = 3e-3
    min_lr: float = 3e-4
    weight_decay: float = 0.1
    grad_clip: float = 1.0
    eval_interval: int = 20
    eval_iters: int = 4
    dtype: str = "float32"
    seed: int = 1337


class LayerNorm(nn.Module):
    """LayerNorm with an optional bias."""

    def __init__(self, ndim, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ndim))
        self.bias = nn.Parameter(torch.zeros(ndim)) if bias else None

    def forward(self, input):
        return F.layer_norm(input, self.weight.shape, self.weight, self.bias, 1e-5)


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.resid_dropout = nn.Dropout(config.dropout)
        self.n_head, self.n_embd, self.dropout = config.n_head, config.n_embd, config.dropout

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(torch.tril(torch.ones(T, T, device=x.device)) == 0, float("-inf"))
        y = F.dropout(F.softmax(att, dim=-1), self.dropout, self.training) @ v
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C)))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd, config.bias)
        self.attn = CausalSelfAttention(config)
        self.ln_2 = LayerNorm(config.n_embd, config.bias)
        self.mlp = nn.ModuleDict(
            dict(
                c_fc=nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias),
                gelu=nn.GELU(),
                c_proj=nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias),
                dropout=nn.Dropout(config.dropout),
            )
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        h = self.ln_2(x)
        for part in self.mlp.values():
            h = part(h)
        return x + h


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(config.vocab_size, config.n_embd),
                wpe=nn.Embedding(config.block_size, config.n_embd),
                drop=nn.Dropout(config.dropout),
                h=nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
                ln_f=LayerNorm(config.n_embd, bias=config.bias),
            )
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self._init_weights)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.n_layer))

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            torch.nn.init.zeros_(module.bias)

    def forward(self, idx, targets=None):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        x = self.transformer.ln_f(x)
        if targets is None:
            return self.lm_head(x[:, [-1], :]), None
        logits = self.lm_head(x)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

    def configure_optimizers(self, config):
        params = {n: p for n, p in self.named_parameters() if p.requires_grad}
        groups = [
            {"params": [p for p in params.values() if p.dim() >= 2], "weight_decay": config.weight_decay},
            {"params": [p for p in params.values() if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.95))

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        for _ in range(max_new_tokens):
            logits, _ = self(idx[:, -self.config.block_size :])
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("Inf")
            idx = torch.cat((idx, torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)), dim=1)
        return idx


def read_arguments():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--text", default="input.txt")
    parser.add_argument("--out", default="out")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--stop-after", type=int, help="stop at this iteration, as if the job's time were over")
    parser.add_argument("--sample", type=int, default=80, help="characters to write at the end")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    config, known = Config(), {f.name: f.type for f in fields(Config)}
    for pair in args.set:
        name, value = pair.split("=")
        setattr(
            config,
            name,
            {"int": int, int: int, "float": float, float: float, "bool": json.loads, bool: json.loads}.get(
                known[name], str
            )(value),
        )
    return args, config


def get_lr(it, c):
    if it < c.warmup_iters:
        return c.learning_rate * (it + 1) / (c.warmup_iters + 1)
    ratio = (it - c.warmup_iters) / (c.max_iters - c.warmup_iters)
    return c.min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (c.learning_rate - c.min_lr)


def main():
    args, config = read_arguments()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(config.seed)
    os.makedirs(args.out, exist_ok=True)
    text = open(args.text, encoding="utf-8").read()
    chars = sorted(set(text))
    stoi = {c: i for i, c in enumerate(chars)}
    config.vocab_size = len(chars)
    data = torch.tensor([stoi[c] for c in text], dtype=torch.long)
    cut = int(0.9 * len(data))
    splits = {"train": data[:cut], "val": data[cut:]}
    context = nullcontext() if config.dtype == "float32" else torch.autocast(device, dtype=getattr(torch, config.dtype))

    def get_batch(split):
        source = splits[split]
        ix = torch.randint(len(source) - config.block_size, (config.batch_size,))
        x = torch.stack([source[i : i + config.block_size] for i in ix])
        y = torch.stack([source[i + 1 : i + 1 + config.block_size] for i in ix])
        return x.to(device), y.to(device)

    @torch.no_grad()
    def estimate_loss():
        out = {}
        model.eval()
        for split in ("train", "val"):
            losses = torch.zeros(config.eval_iters)
            for k in range(config.eval_iters):
                with context:
                    losses[k] = model(*get_batch(split))[1].item()
            out[split] = losses.mean()
        model.train()
        return out

    path = os.path.join(args.out, "ckpt.pt")
    checkpoint = torch.load(path, map_location=device) if args.resume else None
    if checkpoint:
        for name, value in checkpoint["config"].items():
            setattr(config, name, value)
    model = GPT(config).to(device)
    optimizer = model.configure_optimizers(config)
    first = 0
    if checkpoint:
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        first = checkpoint["iteration"]
        torch.set_rng_state(checkpoint["rng"])
        print(f"resumed at iteration {first}")
    else:
        print(f"number of parameters: {sum(p.numel() for p in model.parameters()) / 1e6:.3f}M")

    for it in range(first, config.max_iters):
        lr = get_lr(it, config)
        for group in optimizer.param_groups:
            group["lr"] = lr
        if it % config.eval_interval == 0:
            losses = estimate_loss()
            print(f"step {it}: train loss {losses['train']:.3f}, val loss {losses['val']:.3f}")
        loss = norm = torch.zeros(())
        for micro in range(config.accumulation):
            x, y = get_batch("train")
            with context:
                loss = model(x, y)[1] / config.accumulation
            loss.backward()
        if config.grad_clip:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if it % 10 == 0:
            print(f"iter {it}: loss {loss.item() * config.accumulation:.3f}, norm {norm.item():.2f}, lr {lr:.2e}")
        done = it + 1
        if done % config.eval_interval == 0 or done == args.stop_after:
            torch.save(
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "config": asdict(config),
                    "iteration": done,
                    "rng": torch.get_rng_state(),
                },
                path,
            )
        if done == args.stop_after:
            return
    total = sum(p.double().abs().sum().item() for p in model.parameters())
    print(f"done: the parameters' absolute values add up to {total:.2f}")
    model.eval()
    start = torch.tensor([[stoi["\n"]]], dtype=torch.long, device=device)
    print("".join(chars[i] for i in model.generate(start, args.sample, temperature=0.8, top_k=20)[0].tolist()))


if __name__ == "__main__":
    main()
