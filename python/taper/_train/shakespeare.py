"""`taper train shakespeare`: a small GPT that learns to write plays, character by character."""

import math
import gzip
import os

import taper
from taper import nn
from taper._train.loop import Training
from taper.nn import functional as F
from taper.utils.data import DataLoader, Dataset, RandomSampler

LENGTH, WIDTH, HEADS, LAYERS = 64, 96, 4, 3
WINDOWS = 4000  # of the text, for one epoch; fewer of a short text


class Windows(Dataset):
    """All stretches of the text of LENGTH characters, each with the characters that follow."""

    def __init__(self, text):
        self.text = text

    def __len__(self):
        return len(self.text) - LENGTH

    def __getitem__(self, at):
        return self.text[at : at + LENGTH], self.text[at + 1 : at + 1 + LENGTH]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (
            part.view(n, t, HEADS, c // HEADS).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(c, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, c))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, letters):
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, letters, bias=False)
        self.apply(self.start)
        for block in self.blocks:  # what adds to the stream, so that its variance does not grow with depth
            for weight in (block.out.weight, block.mlp[2].weight):
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * LAYERS))

    @staticmethod
    def start(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, text):
        x = self.letters(text) + self.places(taper.arange(text.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    @taper.no_grad()
    def write(self, text, count):
        for _ in range(count):
            logits = self(text[:, -LENGTH:])[:, -1] / 0.8
            text = taper.cat([text, taper.multinomial(logits.softmax(-1), 1)], dim=1)
        return text


def main(options):
    path = os.path.join(options.data, "shakespeare.txt.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        plays = file.read()[: options.most]
    letters = sorted(set(plays))
    if len(plays) < 20 * LENGTH:
        raise ValueError(f"{path}: expected at least {20 * LENGTH} characters, got {len(plays)}")
    number = {letter: i for i, letter in enumerate(letters)}
    text = taper.tensor([number[letter] for letter in plays])
    cut = len(text) * 9 // 10
    train_set, test_set = Windows(text[:cut]), Windows(text[cut:])
    epochs, batch = options.epochs or 3, options.batch_size or 16
    loader = DataLoader(
        train_set,
        batch_size=batch,
        sampler=RandomSampler(train_set, replacement=True, num_samples=min(WINDOWS, len(train_set) // 8)),
        drop_last=True,
    )
    model = GPT(len(letters))
    decayed = [p for p in model.parameters() if p.dim() > 1]
    optimizer = taper.optim.AdamW(
        [
            {"params": decayed, "weight_decay": 0.1},
            {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=options.lr or 2e-3,
        betas=(0.9, 0.99),
    )
    schedule = taper.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=options.lr or 2e-3, total_steps=epochs * len(loader) + 1, pct_start=0.1
    )

    def loss(model, batch):
        letters, following = batch
        return F.cross_entropy(model(letters).flatten(0, 1), following.flatten())

    def evaluate(model):
        places = range(0, len(test_set) - LENGTH, max(LENGTH, len(test_set) // 200))
        held = [test_set[i] for i in places]
        total = sum(
            loss(model, tuple(taper.stack(part) for part in zip(*held[i : i + 32]))).item() * len(held[i : i + 32])
            for i in range(0, len(held), 32)
        )
        return {"loss": total / len(held)}

    print(
        f"{len(text)} characters, {len(letters)} different ones, {sum(p.numel() for p in model.parameters())} "
        f"weights, {taper.get_num_threads()} threads"
    )
    Training(options, model, optimizer, schedule, loader, epochs, loss, evaluate, "characters", batch * LENGTH).run()
    start = taper.tensor([[number["\n"]]]) if "\n" in number else taper.zeros(1, 1, dtype=taper.long)
    print("\nIt writes:\n" + "".join(letters[i] for i in model.eval().write(start, 300)[0].tolist()))
