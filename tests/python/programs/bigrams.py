"""A character bigram model: counts with index_put_, probabilities, sampling with a seeded generator, log-likelihood and
entropy."""

import torch

words = "anna bob hannah otto eve ada ava noon level radar refer civic kayak madam rotor".split()
letters = ["."] + sorted(set("".join(words)))
index = {c: i for i, c in enumerate(letters)}

first, second = [], []
for word in words:
    padded = "." + word + "."
    first += [index[c] for c in padded[:-1]]
    second += [index[c] for c in padded[1:]]
first, second = torch.tensor(first), torch.tensor(second)

n = torch.zeros((len(letters), len(letters)), dtype=torch.int32)
n.index_put_((first, second), torch.ones_like(first, dtype=torch.int32), accumulate=True)
p = (n + 1).float()
p /= p.sum(1, keepdim=True)
print(n.shape, int(n.sum()), "".join(letters))
values, places = n.flatten().topk(3, sorted=True)
print("most frequent counts:", values.tolist())
print("row sums are one:", torch.allclose(p.sum(1), torch.ones(len(letters))))

g = torch.Generator().manual_seed(2147483647)
for _ in range(5):
    word, at = "", 0
    while True:
        at = torch.multinomial(p[at], num_samples=1, replacement=True, generator=g).item()
        if at == 0 or len(word) > 12:
            break
        word += letters[at]
    print("sample:", word)

loss = -p[first, second].log().mean()
entropy = -(p * p.log()).sum(dim=1)
print(f"loss {loss:.4f}; perplexity {loss.exp():.3f}; highest entropy: {letters[entropy.argmax()]} {entropy.max():.3f}")
one_hot = torch.nn.functional.one_hot(first, num_classes=len(letters)).float()
print(torch.equal((one_hot.T @ torch.nn.functional.one_hot(second, len(letters)).float()).int(), n))
