"""sentence-transformers: a model from modules: encoding, a loss with gradients, saving and loading."""

import tempfile

import torch
from sentence_transformers import SentenceTransformer, losses, models, util
from show import show
from tokenizers import Tokenizer, models as token_models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

words = "[PAD] [UNK] [CLS] [SEP] [MASK] a cat dog sat ran on the mat road fast slow".split()
torch.manual_seed(0)
with tempfile.TemporaryDirectory() as folder:
    tokens = Tokenizer(token_models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    BertModel(
        BertConfig(
            vocab_size=len(words),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    ).save_pretrained(folder)
    transformer = models.Transformer(folder)
    model = SentenceTransformer(modules=[transformer, models.Pooling(32, "mean"), models.Normalize()], device="cpu")
    sentences = ["the cat sat on the mat", "a dog ran on the road", "a slow cat"]
    vectors = model.encode(sentences, convert_to_tensor=True, show_progress_bar=False)
    criterion = losses.MultipleNegativesRankingLoss(model)
    features = [model.tokenize(sentences[:2]), model.tokenize(["a cat sat", "the dog ran fast"])]
    loss = criterion(features, None)
    loss.backward()
    model.save(folder + "/kept")
    again = SentenceTransformer(folder + "/kept", device="cpu").encode(
        sentences, convert_to_tensor=True, show_progress_bar=False
    )
show(
    vectors=vectors[0],
    similarity=util.cos_sim(vectors, vectors),
    loss=loss,
    same=bool((again - vectors).abs().max() < 1e-6),
    gradient=next(model.parameters()).grad.norm(),
)
