"""transformers: ten more small families from configurations, each with its loss and the norm of its gradient; Mixtral's
experts and a Swin too."""

import torch
import transformers as hf
from show import show

numbers = {}
ids = torch.arange(24).reshape(2, 12) % 50
mask = torch.ones_like(ids)
mask[1, 9:] = 0
classes = torch.tensor([0, 1])
small = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 50,
    "pad_token_id": 49,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def family(name, model, **inputs):
    """Loss, gradient's norm, and the first numbers of the output."""
    torch.manual_seed(0)
    model = model()
    out = model(**inputs)
    out.loss.backward()
    gradients = [p.grad.double() for p in model.parameters() if p.grad is not None]
    numbers[f"{name}_loss"] = out.loss
    numbers[f"{name}_gradient"] = sum(gradient.square().sum() for gradient in gradients).sqrt()
    numbers[f"{name}_gradients"] = len(gradients)


def causal(name, **more):
    config = getattr(hf, f"{name}Config")(**{**small, **more})
    family(name, lambda: getattr(hf, f"{name}ForCausalLM")(config), input_ids=ids, attention_mask=mask, labels=ids)


family(
    "RobertaMasked",
    lambda: hf.RobertaForMaskedLM(hf.RobertaConfig(**small, **still)),
    input_ids=ids,
    attention_mask=mask,
    labels=ids,
)
family(
    "DistilBert",
    lambda: hf.DistilBertForSequenceClassification(
        hf.DistilBertConfig(
            vocab_size=50,
            dim=32,
            n_layers=2,
            n_heads=4,
            hidden_dim=64,
            dropout=0,
            attention_dropout=0,
            seq_classif_dropout=0,
        )
    ),
    input_ids=ids,
    attention_mask=mask,
    labels=classes,
)
family(
    "Electra",
    lambda: hf.ElectraForTokenClassification(hf.ElectraConfig(**small, **still, embedding_size=16)),
    input_ids=ids,
    labels=ids % 2,
)
family(
    "DebertaV2",
    lambda: hf.DebertaV2ForSequenceClassification(
        hf.DebertaV2Config(
            **small,
            **still,
            relative_attention=True,
            pos_att_type=["p2c", "c2p"],
            position_buckets=8,
            max_relative_positions=16,
        )
    ),
    input_ids=ids,
    attention_mask=mask,
    labels=classes,
)
causal("GPTNeoX")
causal("Mistral", num_key_value_heads=2, sliding_window=4)
causal("Qwen2", num_key_value_heads=2)
causal("Gemma", num_key_value_heads=2, head_dim=8)
causal("Mixtral", num_key_value_heads=2, num_local_experts=4)
causal("Mamba", state_size=4)
family(
    "Bart",
    lambda: hf.BartForConditionalGeneration(
        hf.BartConfig(
            vocab_size=50,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            dropout=0,
            max_position_embeddings=32,
        )
    ),
    input_ids=ids,
    attention_mask=mask,
    labels=ids,
)
pictures = torch.linspace(-1, 1, 2 * 3 * 32 * 32).reshape(2, 3, 32, 32).sin()
vision = {
    "image_size": 32,
    "patch_size": 8,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
family(
    "CLIP",
    lambda: hf.CLIPModel(
        hf.CLIPConfig(text_config={**small, "eos_token_id": 11}, vision_config=vision, projection_dim=16)
    ),
    input_ids=ids,
    pixel_values=pictures,
    return_loss=True,
)
family(
    "Swin",
    lambda: hf.SwinForImageClassification(
        hf.SwinConfig(
            image_size=32, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4, drop_path_rate=0
        )
    ),
    pixel_values=pictures,
    labels=classes,
)
family(
    "ConvNext",
    lambda: hf.ConvNextForImageClassification(hf.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])),
    pixel_values=pictures,
    labels=classes,
)
sound = torch.linspace(0, 40, 2 * 16 * 32).sin().reshape(2, 16, 32)
family(
    "Whisper",
    lambda: hf.WhisperForConditionalGeneration(
        hf.WhisperConfig(
            vocab_size=50,
            num_mel_bins=16,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            max_source_positions=16,
            max_target_positions=16,
            pad_token_id=49,
            decoder_start_token_id=0,
        )
    ),
    input_features=sound,
    labels=ids,
)
wave = torch.linspace(0, 300, 2 * 800).sin().reshape(2, 800)
family(
    "Wav2Vec2",
    lambda: hf.Wav2Vec2ForCTC(
        hf.Wav2Vec2Config(
            vocab_size=10,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            conv_dim=(16, 16, 16),
            conv_stride=(5, 4, 2),
            conv_kernel=(10, 5, 3),
            num_feat_extract_layers=3,
            num_conv_pos_embeddings=8,
            num_conv_pos_embedding_groups=2,
            hidden_dropout=0,
            attention_dropout=0,
            activation_dropout=0,
            feat_proj_dropout=0,
            final_dropout=0,
            layerdrop=0,
            mask_time_prob=0,
        )
    ),
    input_values=wave,
    labels=torch.tensor([[1, 2, 3], [4, 5, 6]]),
)
show(**numbers)
