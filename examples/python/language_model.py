"""A word language model with an LSTM: trains on a text, keeps the best model, writes a few words of its own.

python language_model.py --text FILE
"""

import argparse
import math
import os

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_


class Corpus:
    def __init__(self, path, most):
        words = []
        with open(path, encoding="utf-8") as file:
            for line in file:
                words += line.split() + ["<eos>"]
        words = words[:most]
        self.word2id = {}
        for word in words:
            self.word2id.setdefault(word, len(self.word2id))
        self.id2word = list(self.word2id)
        ids = torch.tensor([self.word2id[w] for w in words], dtype=torch.long)
        cut = len(ids) * 9 // 10
        self.train, self.valid = ids[:cut], ids[cut:]


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid, nlayers, dropout=0.2, tie_weights=True):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        if tie_weights:
            if nhid != ninp:
                raise ValueError("tied weights need nhid equal to ninp")
            self.decoder.weight = self.encoder.weight
        self.nlayers, self.nhid = nlayers, nhid
        self.init_weights()

    def init_weights(self):
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        return self.decoder(self.drop(output)), hidden

    def init_hidden(self, batch):
        weight = next(self.parameters())
        return weight.new_zeros(self.nlayers, batch, self.nhid), weight.new_zeros(self.nlayers, batch, self.nhid)


def batchify(data, batch, device):
    n = data.size(0) // batch
    return data.narrow(0, 0, n * batch).view(batch, -1).t().contiguous().to(device)


def get_batch(source, i, bptt):
    n = min(bptt, len(source) - 1 - i)
    return source[i : i + n], source[i + 1 : i + 1 + n].view(-1)


def repackage(hidden):
    return tuple(h.detach() for h in hidden)


def evaluate(model, criterion, source, bptt):
    model.eval()
    total, hidden = 0.0, model.init_hidden(source.size(1))
    with torch.no_grad():
        for i in range(0, source.size(0) - 1, bptt):
            data, targets = get_batch(source, i, bptt)
            output, hidden = model(data, hidden)
            total += len(data) * criterion(output.view(-1, output.size(-1)), targets).item()
    return total / (len(source) - 1)


def train(model, criterion, optimizer, source, args, epoch):
    model.train()
    total, hidden = 0.0, model.init_hidden(args.batch_size)
    for batch, i in enumerate(range(0, source.size(0) - 1, args.bptt)):
        data, targets = get_batch(source, i, args.bptt)
        hidden = repackage(hidden)
        optimizer.zero_grad()
        output, hidden = model(data, hidden)
        loss = criterion(output.view(-1, output.size(-1)), targets)
        loss.backward()
        clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        total += loss.item()
        if batch % args.log_interval == 0 and batch > 0:
            mean = total / args.log_interval
            print(
                f"| epoch {epoch} | batch {batch:3d} | lr {optimizer.param_groups[0]['lr']:.4f} | loss {mean:5.3f} | ppl {math.exp(mean):8.2f}"
            )
            total = 0.0


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--text", default="input.txt")
    parser.add_argument("--most", type=int, default=100000, help="words at most")
    parser.add_argument("--emsize", type=int, default=64)
    parser.add_argument("--nhid", type=int, default=64)
    parser.add_argument("--nlayers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--clip", type=float, default=0.25)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--bptt", type=int, default=35)
    parser.add_argument("--seed", type=int, default=1111)
    parser.add_argument("--log-interval", type=int, default=20)
    parser.add_argument("--save", default="language_model.pt")
    parser.add_argument("--words", type=int, default=20)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    corpus = Corpus(args.text, args.most)
    train_data, valid_data = batchify(corpus.train, args.batch_size, device), batchify(corpus.valid, 10, device)
    model = RNNModel(len(corpus.id2word), args.emsize, args.nhid, args.nlayers).to(device)
    print(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.25, patience=0)
    best = None
    for epoch in range(1, args.epochs + 1):
        train(model, criterion, optimizer, train_data, args, epoch)
        loss = evaluate(model, criterion, valid_data, args.bptt)
        print(f"end of epoch {epoch}: valid loss {loss:.3f}, ppl {math.exp(loss):.2f}")
        if best is None or loss < best:
            with open(args.save, "wb") as file:
                torch.save(model, file)
            best = loss
        scheduler.step(loss)

    with open(args.save, "rb") as file:
        model = torch.load(file, weights_only=False)
    model.rnn.flatten_parameters()
    model.eval()
    hidden, word, text = model.init_hidden(1), torch.zeros(1, 1, dtype=torch.long, device=device), []
    with torch.no_grad():
        for _ in range(args.words):
            output, hidden = model(word, hidden)
            word.fill_(torch.multinomial(output.squeeze().div(0.8).exp().cpu(), 1)[0])
            text.append(corpus.id2word[word])
    print(" ".join(text).replace("<eos>", os.linesep))


if __name__ == "__main__":
    main()
