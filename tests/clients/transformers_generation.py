"""transformers: generation with every cache, by beams, by sampling, with constraints and an assistant, streamed, and
from embeddings."""

import torch
from show import show
from transformers import (
    DynamicCache,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

torch.manual_seed(0)
small = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 50,
    "initializer_range": 0.5,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
llama = LlamaForCausalLM(LlamaConfig(**small)).eval()
draft = LlamaForCausalLM(LlamaConfig(**{**small, "num_hidden_layers": 1})).eval()
mistral = MistralForCausalLM(MistralConfig(**small, sliding_window=4)).eval()
mamba = MambaForCausalLM(
    MambaConfig(
        hidden_size=32,
        num_hidden_layers=2,
        vocab_size=50,
        state_size=4,
        initializer_range=0.5,
        pad_token_id=0,
        eos_token_id=2,
    )
).eval()
ids = torch.arange(3, 15).reshape(2, 6)
mask = torch.ones_like(ids)
mask[0, :2] = 0
numbers = {}


def generated(name, model=llama, seed=0, **options):
    torch.manual_seed(seed)
    numbers[name] = model.generate(
        ids, **{"attention_mask": mask, "max_new_tokens": 10, "do_sample": False, **options}
    )[:, 6:]


generated("greedy")
generated("without_cache", use_cache=False)
generated("static", cache_implementation="static")
generated("sliding", mistral)
generated("mamba", mamba)
generated("beams", num_beams=3, num_return_sequences=2)
generated("beams_sampled", num_beams=2, do_sample=True, seed=1)
generated("length_penalty", num_beams=4, length_penalty=2.0, early_stopping=True, no_repeat_ngram_size=2)
generated("top_k", do_sample=True, top_k=5)
generated("top_p", do_sample=True, top_p=0.7, temperature=0.6, seed=2)
generated("min_p", do_sample=True, min_p=0.05, seed=3)
generated("typical", do_sample=True, typical_p=0.8, seed=4)
generated("repetition", repetition_penalty=1.5, bad_words_ids=[[7], [8]], min_new_tokens=4)
generated("two_eos", eos_token_id=[2, 11, 30, 31])


class Scores(list):
    """A streamer that keeps what it is given."""

    def put(self, value):
        self.extend(value.reshape(-1).tolist())

    def end(self):
        self.append(-1)


streamed = Scores()
llama.generate(ids[1:], max_new_tokens=6, do_sample=False, streamer=streamed)
numbers["streamed"] = streamed
numbers["assisted"] = llama.generate(ids[1:], max_new_tokens=8, do_sample=False, assistant_model=draft)
told = llama.generate(
    ids,
    attention_mask=mask,
    max_new_tokens=4,
    do_sample=False,
    output_scores=True,
    output_logits=True,
    return_dict_in_generate=True,
)
numbers["scores"] = torch.stack(told.scores)[:, 0, :4]
numbers["transition"] = llama.compute_transition_scores(told.sequences, told.scores, normalize_logits=True)
numbers["from_embeddings"] = llama.generate(
    inputs_embeds=llama.get_input_embeddings()(ids), attention_mask=mask, max_new_tokens=5, do_sample=False
)

# A cache by hand: the prompt once, then a token at a time
cache = DynamicCache(config=llama.config)
with torch.no_grad():
    logits = llama(ids, past_key_values=cache, use_cache=True).logits[:, -1]
    step = llama(logits.argmax(-1, keepdim=True), past_key_values=cache, use_cache=True).logits[:, -1]
    whole = llama(torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)).logits[:, -1]
numbers["step"], numbers["step_is_whole"], numbers["length"] = (
    step,
    (step - whole).abs().max() < 1e-4,
    cache.get_seq_length(),
)
show(**numbers)
