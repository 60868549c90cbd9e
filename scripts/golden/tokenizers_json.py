#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/tokenizer/: small tokenizers of every kind, and what PyPI tokenizers makes of texts.

Run with a Python that has tokenizers 0.22.2, sentencepiece and protobuf. With `--compare PROGRAM COUNT`, compares a program with it on COUNT random strings
for each tokenizer instead: PROGRAM FILE reads texts that end with \\x01 and writes, for each, the ids, and after \\x02 each the
text, the text with special tokens and the text streamed, and \\x01.
"""

import base64
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata
import zlib

import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

PINNED = "0.22.2"
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/tokenizer"

TEXTS = [
    "", " ", "  ", "\n", "a", " a", "a ", "Hello, world!", "  Hello  world  ", "The quick brown fox jumps over the lazy dog.",
    "I'm sure you've seen what they'll do; it's THEY'RE and WE'LL and I'D.", "tabs\tand\r\nnew lines\n\n\nhere  \n  end",
    "3.14159 and 1234567890, 10,000 or 1/2; 0x1F", "snake_case camelCase PascalCase kebab-case", "def f(x):\n    return x ** 2  # comment\n",
    "https://example.org/path?query=1&other=%20#part", "user@example.org", "C++20 && (a || !b) != {c: [d, e]}", "...!!! ??? --- ___ ***",
    "Größe, Straße, Äpfel, ÖL, naïve café, déjà vu, El Niño", "cafe\u0301 nai\u0308ve A\u030A \u1E9B\u0323 q\u0307\u0323 o\u0302\u0303",
    "Привет, мир! Съешь же ещё этих мягких французских булок.", "Γειά σου Κόσμε, ΤΑΧΊΣΤΗ ἀλώπηξ ᾄδω", "Здравствуйте ЁЖ Їжак",
    "你好,世界。我能吞下玻璃而不伤身体。", "こんにちは世界、カタカナとひらがな。ガギグ ｶﾞｷﾞ", "안녕하세요 세계 \u1112\u1161\u11ab\u1100\u1173\u11af", "สวัสดีชาวโลก ภาษาไทย",
    "नमस्ते दुनिया क्षत्रिय ज़िन्दगी", "ওহে বিশ্ব", "வணக்கம் உலகம்", "مرحبا بالعالم، كيف الحال؟ ١٢٣ ﷺ", "שלום עולם, בְּרֵאשִׁית", "გამარჯობა მსოფლიო", "Բարեւ աշխարհ",
    "ሰላም ዓለም", "Xin chào thế giới, Việt Nam", "İstanbul ıI ŞİĞ", "ǅ ǆ ŉ ﬁ ﬂ Ⅷ ² ½ ㎏ ｆｕｌｌ　ｗｉｄｔｈ", "😀😃 👨‍👩‍👧‍👦 👍🏽 🇩🇪 ❤️ ©®™ ∑∫√≠ →←",
    "a\u00a0b\u2003c\u200bd\u2028e\u3000f\u0085g", "zero\u200djoin \ufeff bom \u00ad soft", "nul\u0001\u0002 bell\u0007 del\u007f", "\ufffd replaced \ufffd",
    "<s> not </s> special <unk> <pad>", "<|endoftext|>start<|endoftext|>  <|endoftext|>", "[CLS] text [SEP] more [MASK] [UNK] [mask]", "<mask> and  <mask>  spaces   <mask>",
    "word<tool>word <tool> atool tool", "▁already ▁▁marked ▁", "Ġlooks Ċlike bytes", "<0x0A> <0xFF> byte tokens", "ſ K 'ſ 'S 'LL 'Re", "x" * 120 + " " + "é" * 101,
    "    four\n        eight\t\tspaces", "a\r\rb\n\rc", "1 22 333 4444 55555 ٣٤٥ ४५६", "don ' t do not isn ' t it 's we 've", "\U0001d400\U0001d401 \U00010400\U00010428 \U0002f800 \uf900",
    "a😀b", "😀" * 5, "mixed日本語English한국어русский", "“quoted” ‘single’ «guillemets» „low“", "€100 £50 ¥1000 ₹500", "# Title\n\n- item 1\n- item 2\n\n```cpp\nint main() {}\n```",
]

WORDS = "the of and to in is was for on as with by at from are this that be it an not have which or one had but what all were when we there can".split()


def corpus():
    return [text for text in TEXTS if "<" not in text and "x" * 9 not in text] + [" ".join(WORDS)] * 3


def byte_level():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=700, special_tokens=["<|endoftext|>"],
                                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return t


LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
             r"\s*[\r\n]+|\s+(?!\S)|\s+")


def with_split(base, splits, **fields):
    """The byte-level tokenizer cut in another way: what differs between families is mostly this."""
    data = json.loads(base.to_str())
    steps = [{"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False} for regex in splits]
    steps.append({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False})
    data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    for name, value in fields.items():
        if name == "model":
            data["model"].update(value)
        else:
            data[name] = value
    return Tokenizer.from_str(json.dumps(data))


def llama3(base):
    t = with_split(base, [LLAMA3], model={"ignore_merges": True})
    t.add_special_tokens(["<s>", "</s>"])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B:1", special_tokens=[("<s>", t.token_to_id("<s>"))])])
    return t


def qwen2(base):
    t = with_split(base, [LLAMA3.replace("{1,3}", "")])
    t.normalizer = normalizers.NFC()
    t.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("tool", single_word=True, normalized=True)])
    return t


def deepseek3(base):
    return with_split(base, [r"\p{N}{1,3}", r"[一-龥\u3040-ゟ゠-ヿ]+", DEEPSEEK3])


def gpt4o(base):
    return with_split(base, [GPT4O])


def smollm(base):
    data = json.loads(base.to_str())
    data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]}
    return Tokenizer.from_str(json.dumps(data))


def roberta(base):
    data = json.loads(base.to_str())
    data["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
    t = Tokenizer.from_str(json.dumps(data))
    t.add_special_tokens(["<s>", "</s>", AddedToken("<mask>", lstrip=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))
    return t


def llama2():
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.train_from_iterator([text.replace(" ", "▁") for text in corpus()], trainers.BpeTrainer(
        vocab_size=700, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)], limit_alphabet=90, show_progress=False,
        max_token_length=12))
    data = json.loads(t.to_str())
    data["added_tokens"] = [token for token in data["added_tokens"] if not token["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(data))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    return t


def gemma():
    data = json.loads(llama2().to_str())
    data["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    data["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    data["decoder"] = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                                                        {"type": "ByteFallback"}, {"type": "Fuse"}]}
    return Tokenizer.from_str(json.dumps(data))


def bert():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(corpus(), trainers.WordPieceTrainer(vocab_size=600, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
                                                              show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                     special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    t.enable_padding(length=64)
    t.enable_truncation(48)
    return t


def bert_cased():
    data = json.loads(bert().to_str())
    data["normalizer"] = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": False, "strip_accents": None, "lowercase": False}
    data["post_processor"] = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    return Tokenizer.from_str(json.dumps(data))


def unigram():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.train_from_iterator(corpus(), trainers.UnigramTrainer(vocab_size=500, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>",
                                                            show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return t


def charsmap(rule):
    """SentencePiece's table of characters by its own trainer: a rule by name, or for None what NFKC changes in TEXTS, as nmt_nfkc does."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        (place / "text").write_text("\n".join(WORDS) + "\n")
        how = dict(normalization_rule_name=rule)
        if rule is None:
            letters = {c for text in TEXTS for c in text}
            pairs = letters | {a + b for text in TEXTS for a, b in zip(text, text[1:])}
            rules = {source: unicodedata.normalize("NFKC", source) for source in pairs if "\x00" not in source}
            rules = {source: made for source, made in rules.items() if source != made and (len(source) == 1 or len(made) == 1)}
            rules |= {c: " " for c in "\t\n\r\u00a0\u2003\u2028\u3000\u200b"} | {c: "" for c in "\x01\x02\x07\x7f\u00ad\ufeff"}
            lines = ["%s\t%s\n" % tuple(" ".join("%X" % ord(c) for c in text) for text in rule) for rule in sorted(rules.items())]
            (place / "rules.tsv").write_text("".join(lines))
            how = dict(normalization_rule_tsv=str(place / "rules.tsv"))
        sentencepiece.SentencePieceTrainer.train(input=str(place / "text"), model_prefix=str(place / "m"), vocab_size=40,
                                                 hard_vocab_limit=False, minloglevel=2, **how)
        model = sentencepiece_model_pb2.ModelProto.FromString((place / "m.model").read_bytes())
    return base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()


def t5(rule=None):
    data = json.loads(unigram().to_str())
    data["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": charsmap(rule)}
    data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}]}
    return Tokenizer.from_str(json.dumps(data))


def unigram_bytes():
    data = json.loads(unigram().to_str())
    data["model"]["byte_fallback"] = True
    data["model"]["vocab"] = [[token, round(score, 6)] for token, score in data["model"]["vocab"]] + [[f"<0x{i:02X}>", -20.0] for i in range(256)]
    data["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]}
    data["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}
    data["decoder"] = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Metaspace", "replacement": "▁",
                                                                                   "prepend_scheme": "first", "split": True}]}
    return Tokenizer.from_str(json.dumps(data))


def word_ends():
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=False))
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.decoder = decoders.BPEDecoder()
    t.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>"], end_of_word_suffix="</w>", limit_alphabet=120,
                                                        show_progress=False))
    return t


def word_level():
    t = Tokenizer(models.WordLevel(unk_token="<unk>"))
    t.normalizer = normalizers.NFKC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("contiguous"),
                                               pre_tokenizers.Digits(), pre_tokenizers.Split("n", "merged_with_next")])
    t.train_from_iterator(corpus(), trainers.WordLevelTrainer(vocab_size=200, special_tokens=["<unk>"], show_progress=False))
    return t


def all_tokenizers():
    base = byte_level()
    return {"gpt2": base, "llama3": llama3(base), "qwen2": qwen2(base), "deepseek3": deepseek3(base), "gpt4o": gpt4o(base), "smollm": smollm(base),
            "roberta": roberta(base), "llama2": llama2(), "gemma": gemma(), "bert": bert(), "bert_cased": bert_cased(), "unigram": unigram(),
            "unigram_bytes": unigram_bytes(), "word_ends": word_ends(), "word_level": word_level(), "t5": t5()}


RANGES = [(0x20, 0x7E)] * 6 + [(0x9, 0xD), (0xA0, 0x17F), (0x1C0, 0x24F), (0x300, 0x345), (0x370, 0x3FF), (0x400, 0x52F), (0x531, 0x5F4), (0x600, 0x6FF),
          (0x900, 0x97F), (0x980, 0x9FE), (0xB80, 0xBFA), (0xE01, 0xE5B), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137F), (0x1E00, 0x1FFE),
          (0x2000, 0x206F), (0x20A0, 0x20BF), (0x2100, 0x218B), (0x2190, 0x23FF), (0x2460, 0x25FF), (0x2E80, 0x2EF3), (0x3000, 0x30FF), (0x3130, 0x318E),
          (0x3200, 0x33FF), (0x4E00, 0x4FFF), (0xAC00, 0xACFF), (0xF900, 0xFA6D), (0xFB00, 0xFB06), (0xFE30, 0xFE4F), (0xFF01, 0xFFEE), (0x10400, 0x1044F),
          (0x1D400, 0x1D4FF), (0x1F300, 0x1F64F), (0x2F800, 0x2FA1D)]
BITS = [" ", " ", " ", "  ", "\n", "\r\n", "\t", "'s", "'LL", "'Re", "<s>", "</s>", "<|endoftext|>", "<tool>", "tool", "<mask>", "[SEP]", "[UNK]", "123", "4567", "▁",
        "<0x0A>", "\u200d", "do not", " ' "] + WORDS


# What ends a text for the programs that are compared.
SEPARATORS = dict.fromkeys([0x01, 0x02])


def random_text(rng):
    parts = []
    for _ in range(rng.randrange(1, 12)):
        kind = rng.random()
        if kind < 0.35:
            parts.append(rng.choice(BITS))
        elif kind < 0.6:
            text = rng.choice(TEXTS)
            begin = rng.randrange(len(text) + 1)
            parts.append(text[begin:begin + rng.randrange(12)])
        else:
            first, last = rng.choice(RANGES)
            parts.append("".join(chr(rng.randint(first, last)) for _ in range(rng.randrange(1, 6))))
    return "".join(parts).translate(SEPARATORS)


def answers(tokenizer, texts):
    tokenizer.no_padding()
    tokenizer.no_truncation()
    encoded = [tokenizer.encode(text).ids for text in texts]
    return encoded, [tokenizer.decode(ids) for ids in encoded], [tokenizer.decode(ids, skip_special_tokens=False) for ids in encoded]


def compare(program, count):
    rng = random.Random(6)
    folder = pathlib.Path("/tmp/shardwise_tokenizers")
    folder.mkdir(exist_ok=True)
    total = 0
    for name, tokenizer in (all_tokenizers() | {"t5_nmt_nfkc": t5("nmt_nfkc")}).items():
        texts = [text.translate(SEPARATORS) for text in TEXTS] + [random_text(rng) for _ in range(count)]
        path = folder / name / "tokenizer.json"
        path.parent.mkdir(exist_ok=True)
        tokenizer.save(str(path))
        tokenizer = Tokenizer.from_file(str(path))
        out = subprocess.run([program, str(path)], input="".join(text + "\x01" for text in texts).encode(), stdout=subprocess.PIPE, check=False).stdout.decode()
        ours = out.split("\x01")
        wrong = 0
        for text, mine, ids, plain, special in zip(texts, ours, *answers(tokenizer, texts), strict=False):
            wanted = "".join(f"{i} " for i in ids) + "\x02" + plain + "\x02" + special + "\x02" + plain
            if mine != wanted:
                wrong += 1
                if wrong <= 3:
                    print(f"{name}: {text!r}\n  ours   {mine!r}\n  theirs {wanted!r}")
        total += wrong
        print(f"{name}: {len(texts)} texts, {len(ours) - 1} answers, {wrong} differ")
    return total


def golden():
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "texts.json").write_text(json.dumps(TEXTS, ensure_ascii=True, indent=0) + "\n")
    lines = []
    for name, tokenizer in all_tokenizers().items():
        (OUT / f"{name}.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
        # What was trained has scores that the file, as tokenizers reads it, has not to the last bit.
        tokenizer = Tokenizer.from_file(str(OUT / f"{name}.json"))
        for ids, plain, special in zip(*answers(tokenizer, TEXTS), strict=True):
            hashes = [zlib.crc32(text.encode()) for text in (" ".join(map(str, ids)), plain, special)]
            lines.append(f"{name} {len(ids)} " + " ".join(f"{value:08x}" for value in hashes))
    (OUT / "answers.txt").write_text("\n".join(lines) + "\n")


def main():
    if tokenizers.__version__ != PINNED:
        sys.exit(f"tokenizers {tokenizers.__version__} found, {PINNED} wanted")
    if sys.argv[1:2] == ["--compare"]:
        sys.exit(compare(sys.argv[2], int(sys.argv[3])) != 0)
    golden()


if __name__ == "__main__":
    main()
