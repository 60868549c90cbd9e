#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/chat/: what transformers 4.57.6 renders from chat templates, to the byte.

    chat_templates.py FOLDER             features.jsonl (templates of our own), random.jsonl and published.jsonl, whose templates
                                         lie in FOLDER: vendor/llama.cpp/models/templates of llama-cpp-python's source
    chat_templates.py --random N SEED    N random templates, on standard output
    chat_templates.py --check FILE...    the conversations over any template files, on standard output

Run with the Python of scripts/golden/families.py and jinja2 3.1.6. A line is {"template", "cases": [{"context", "text"}]}, with
"error" in the place of "text" where Jinja refuses: "refused" with the text of raise_exception, else "wrong". The date is
2026-11-24 03:20:05.
"""

import datetime
import json
import os
import sys

import jinja2
from transformers.utils import chat_template_utils

import chat_features
import chat_random

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class FixedDate(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 11, 24, 3, 20, 5)


chat_template_utils.datetime = FixedDate

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def said(*turns):
    return [{"role": role, "content": text} for role, text in turns]


CONVERSATIONS = [
    said(("user", "Why is the sky blue?")),
    said(("system", "Be brief."), ("user", " Hi ")),
    said(("user", "Hi"), ("assistant", "Hello!\n"), ("user", "Bye")),
    said(("system", ""), ("user", "2 + 2?"), ("assistant", "<think>\nsum\n</think>\n\n4"), ("user", "And 3 + 3?")),
    said(("user", "Grüße, 世界 \U0001f600\n\"quoted\" <b>&amp;</b> \\n"), ("assistant", "Ünïcödé"), ("user", "{{ x }} {% y %}")),
    said(("user", "one"), ("user", "two")),
    said(("assistant", "I begin."), ("user", "Go on.")),
    said(("user", "Hi"), ("assistant", "Hello!")),
]


# Published under licences that let them be given on: the file, the model, its licence on the hub.
PUBLISHED = [
    ("Qwen-Qwen2.5-7B-Instruct.jinja", "Qwen/Qwen2.5-7B-Instruct", "Apache-2.0"),
    ("Qwen-Qwen3-0.6B.jinja", "Qwen/Qwen3-0.6B", "Apache-2.0"),
    ("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja", "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "MIT"),
    ("deepseek-ai-DeepSeek-V3.1.jinja", "deepseek-ai/DeepSeek-V3.1", "MIT"),
    ("ibm-granite-granite-3.3-2B-Instruct.jinja", "ibm-granite/granite-3.3-2b-instruct", "Apache-2.0"),
    ("microsoft-Phi-3.5-mini-instruct.jinja", "microsoft/Phi-3.5-mini-instruct", "MIT"),
    ("mistralai-Mistral-Nemo-Instruct-2407.jinja", "mistralai/Mistral-Nemo-Instruct-2407", "Apache-2.0"),
    ("openai-gpt-oss-120b.jinja", "openai/gpt-oss-120b", "Apache-2.0"),
    ("HuggingFaceTB-SmolLM3-3B.jinja", "HuggingFaceTB/SmolLM3-3B", "Apache-2.0"),
    ("GLM-4.6.jinja", "zai-org/GLM-4.6", "MIT"),
]


def render(template, context):
    context = dict(context)
    conversation = context.pop("messages", [])
    try:
        text, _ = chat_template_utils.render_jinja_template([conversation], chat_template=template, **context)
        text = text[0]
        text.encode()
        return {"text": text}
    except jinja2.exceptions.TemplateError as error:
        refused = type(error) is jinja2.exceptions.TemplateError
        return {"error": "refused", "reason": str(error)} if refused else {"error": "wrong"}
    except (TypeError, ValueError, ZeroDivisionError, OverflowError, AttributeError, LookupError, SyntaxError,
            RecursionError) as error:
        del error
        return {"error": "wrong"}


def conversations():
    for k, messages in enumerate(CONVERSATIONS):
        yield {"messages": messages, "add_generation_prompt": k != len(CONVERSATIONS) - 1, **TOKENS}


def row(template, contexts, **more):
    return json.dumps({**more, "template": template, "cases": [{"context": c, **render(template, c)} for c in contexts]},
                      ensure_ascii=False, separators=(",", ":"))


def features():
    context = {**chat_features.CONTEXT, "messages": CONVERSATIONS[2], "add_generation_prompt": True, "bos_token": "<s>"}
    templates = ["{{ " + text.replace("\\n", "\n") + " }}" if text.endswith("\\") else "{{ " + text + " }}"
                 for text in chat_features.EXPRESSIONS] + chat_features.TEMPLATES
    for template in templates:
        yield json.dumps({"template": template, **render(template, context)}, ensure_ascii=False, separators=(",", ":"))


def main():
    if sys.argv[1:2] == ["--random"]:
        for template, context in chat_random.cases(int(sys.argv[2]), int(sys.argv[3])):
            print(row(template, [context]))
        return
    if sys.argv[1:2] == ["--check"]:
        for path in sys.argv[2:]:
            print(row(open(path, newline="").read(), conversations(), name=os.path.basename(path)))
        return
    folder = os.path.join(ROOT, "tests", "golden", "chat")
    with open(os.path.join(folder, "features.jsonl"), "w") as out:
        print(json.dumps({"context": {**chat_features.CONTEXT, "messages": CONVERSATIONS[2],
                                      "add_generation_prompt": True, "bos_token": "<s>"}},
                         ensure_ascii=False, separators=(",", ":")), file=out)
        for line in features():
            print(line, file=out)
    with open(os.path.join(folder, "random.jsonl"), "w") as out:
        print(json.dumps({"context": chat_random.CONTEXT}, ensure_ascii=False, separators=(",", ":")), file=out)
        for template, context in chat_random.cases(320, 20261124):
            print(json.dumps({"template": template, **render(template, context)}, ensure_ascii=False,
                             separators=(",", ":")), file=out)
    with open(os.path.join(folder, "published.jsonl"), "w") as out:
        for name, model, licence in PUBLISHED:
            template = open(os.path.join(sys.argv[1], name), newline="").read()
            print(row(template, conversations(), model=model, licence=licence), file=out)


if __name__ == "__main__":
    main()
