"""torchaudio: WAV files, spectrograms, resampling, with torchaudio's numbers. torchtext: vocabularies, tokenisers,
files on disk."""

import io
import math
import wave

import pytest

import taper
import taper.torchaudio as torchaudio
import taper.torchaudio.functional as F
import taper.torchaudio.transforms as T
from taper.torchtext import data, datasets, transforms, vocab

TIME = taper.arange(4000) / 8000.0
SOUND = taper.stack([taper.sin(2 * math.pi * 440 * TIME) * 0.5, taper.cos(2 * math.pi * 1000 * TIME * TIME) * 0.3])


# ---- Sound ----
def test_wav_files(tmp_path):
    path = tmp_path / "tone.wav"
    torchaudio.save(path, SOUND, 8000, encoding="PCM_S", bits_per_sample=16)
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate(), file.getnframes()) == (2, 2, 8000, 4000)
    back, rate = torchaudio.load(path)
    assert rate == 8000
    assert back.shape == (2, 4000)
    assert float((back - SOUND).abs().max()) <= 1 / 65536
    part, _ = torchaudio.load(str(path), frame_offset=100, num_frames=50, channels_first=False)
    assert taper.equal(part, back[:, 100:150].t())
    raw, _ = torchaudio.load(path, normalize=False)
    assert raw.dtype == taper.int16
    assert taper.equal(raw.float() / 32768, back)
    about = torchaudio.info(path)
    assert (about.sample_rate, about.num_frames, about.num_channels, about.bits_per_sample, about.encoding) == (
        8000,
        4000,
        2,
        16,
        "PCM_S",
    )
    file = io.BytesIO()
    torchaudio.save(file, SOUND, 8000, format="wav")
    exact, _ = torchaudio.load(io.BytesIO(file.getvalue()))
    assert taper.equal(exact, SOUND)
    with pytest.raises(RuntimeError, match="does not begin as one"):
        torchaudio.load(io.BytesIO(b"nothing like it"))


def shape(t):
    flat = t.double().reshape(-1)
    return list(t.shape), [float(flat.sum()), float((flat * taper.cos(taper.arange(len(flat)).double() * 0.3)).sum())]


CASES = {
    "spectrogram": lambda: T.Spectrogram(n_fft=256, hop_length=100, power=1.0, normalized=True, pad=10)(SOUND),
    "mel": lambda: T.MelSpectrogram(8000, n_mels=40)(SOUND),
    "slaney": lambda: T.MelSpectrogram(8000, n_mels=40, norm="slaney", mel_scale="slaney", n_fft=512)(SOUND),
    "mfcc": lambda: T.MFCC(8000, 13, melkwargs={"n_mels": 40, "n_fft": 400, "hop_length": 160})(SOUND),
    "decibels": lambda: T.AmplitudeToDB(top_db=40.0)(T.Spectrogram()(SOUND)),
    "resampled up": lambda: T.Resample(8000, 11025)(SOUND),
    "resampled down": lambda: F.resample(
        SOUND, 8000, 4000, resampling_method="sinc_interp_kaiser", lowpass_filter_width=16
    ),
    "deltas": lambda: F.compute_deltas(T.Spectrogram(n_fft=64)(SOUND)),
    "companded": lambda: F.mu_law_encoding(SOUND, 256),
    "masked": lambda: T.TimeMasking(40)(T.FrequencyMasking(10)(T.Spectrogram(n_fft=64)(SOUND))),
}


@pytest.mark.parametrize("name", CASES)
def test_as_torchaudio(name):
    taper.manual_seed(0)
    sizes, sums = shape(CASES[name]())
    assert sizes == RECORDED[name][0]
    assert sums == pytest.approx(RECORDED[name][1], rel=2e-4, abs=1e-3)


def test_a_spectrogram_and_back():
    spec = T.Spectrogram(n_fft=256, power=None)(SOUND)
    assert float((T.InverseSpectrogram(n_fft=256)(spec, 4000) - SOUND).abs().max()) < 1e-5
    assert float((F.mu_law_decoding(F.mu_law_encoding(SOUND, 256), 256) - SOUND).abs().max()) < 0.02


# ---- Text ----
def test_tokens():
    tokenizer = data.utils.get_tokenizer("basic_english")
    assert tokenizer("Don't panic, it's a TEST (really)!") == [
        "don",
        "'",
        "t",
        "panic",
        ",",
        "it",
        "'",
        "s",
        "a",
        "test",
        "(",
        "really",
        ")",
        "!",
    ]
    assert list(data.utils.ngrams_iterator(["a", "b", "c"], 3)) == ["a", "b", "c", "a b", "b c", "a b c"]
    assert data.get_tokenizer(None)("a  b") == ["a", "b"]
    assert data.get_tokenizer(str.split)("x y") == ["x", "y"]


def test_a_vocabulary():
    words = vocab.build_vocab_from_iterator([["b", "a", "b"], ["c", "a", "b"]], specials=["<unk>", "<pad>"])
    assert words.get_itos() == ["<unk>", "<pad>", "b", "a", "c"]
    assert len(words) == 5
    assert "a" in words
    assert words["a"] == 3
    with pytest.raises(RuntimeError, match="Token z not found and default index is not set"):
        words["z"]
    words.set_default_index(words["<unk>"])
    assert words(["z", "c"]) == [0, 4]
    assert words.lookup_tokens([2, 0]) == ["b", "<unk>"]
    assert words.get_stoi()["c"] == 4
    words.insert_token("new", 1)
    words.append_token("last")
    assert words.lookup_indices(["new", "<pad>", "last"]) == [1, 2, 6]
    assert vocab.build_vocab_from_iterator([["b", "a", "b"]], min_freq=2).get_itos() == ["b"]
    assert vocab.build_vocab_from_iterator(
        [["b", "a", "b"]], specials=["<s>"], max_tokens=2, special_first=False
    ).get_itos() == ["b", "<s>"]


def test_from_text_to_tensors():
    words = vocab.build_vocab_from_iterator([["a", "b", "c"]], specials=["<pad>"])
    steps = transforms.Sequential(
        transforms.VocabTransform(words),
        transforms.Truncate(2),
        transforms.AddToken(9),
        transforms.ToTensor(padding_value=0),
    )
    assert steps([["a", "b", "c"], ["c"]]).tolist() == [[9, 1, 2], [9, 3, 0]]


def test_texts_on_disk(tmp_path):
    (tmp_path / "AG_NEWS").mkdir()
    (tmp_path / "AG_NEWS" / "train.csv").write_text('"3","Title, here","Text"\n"1","T","U"\n')
    rows = datasets.AG_NEWS(root=str(tmp_path), split="train")
    assert list(rows) == [(3, "Title, here Text"), (1, "T U")]
    assert list(rows) == list(rows)
    assert len(data.functional.to_map_style_dataset(rows)) == 2
    for language, text in (("de", "Ein Haus\n"), ("en", "A house\n")):
        (tmp_path / f"train.{language}").write_text(text)
    assert list(datasets.Multi30k(str(tmp_path), split="train")) == [("Ein Haus", "A house")]
    with pytest.raises(RuntimeError, match="downloads nothing by itself: please put .*AG_NEWS/test.csv"):
        datasets.AG_NEWS(root=str(tmp_path))


RECORDED = {  # torchaudio 2.11's
    "spectrogram": ([2, 129, 41], [483.425014, 37.0487179]),
    "mel": ([2, 40, 21], [106456.606, 974.31488]),
    "slaney": ([2, 40, 16], [2309.67776, 17.7290179]),
    "mfcc": ([2, 13, 26], [-12185.0633, -1536.71313]),
    "decibels": ([2, 201, 21], [-43216.8002, 760.808033]),
    "resampled up": ([2, 5513], [26.1335025, -30.692583]),
    "resampled down": ([2, 2000], [9.46947105, -11.8871623]),
    "deltas": ([2, 33, 126], [-75.8564043, 41.5982452]),
    "companded": ([2, 4000], [1026777.0, -6624.30491]),
    "masked": ([2, 33, 126], [16432.5135, -272.583728]),
}
