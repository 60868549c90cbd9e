#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/chat/masks.jsonl: the tokens of conversations, and which of them the assistant writes, as transformers says.

The first line has the templates by their names; a line behind it is {"tokenizer", "template", "special", "line", "mask"}, of which "line" is a
line of training data and "mask" has a digit for each token. Where the template has {% generation %} the mask is that of apply_chat_template(return_assistant_tokens_mask=True). Where it has not, transformers knows none:
the mask is that of the characters between the text up to a message of the assistant, rendered with add_generation_prompt, and the text up to
the one behind it; "mask" is null where the one is no prefix of the other, and with "says" where the template asks for the date. Needs transformers==4.57.6.

    chat_masks.py
"""
import datetime
import json
import os
import re

from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

from chat_templates import CONVERSATIONS, ROOT, said

GOLDEN = os.path.join(ROOT, "tests", "golden")
TOOL = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}}}
CALLS = [{"role": "user", "content": "2 + 2?"},
         {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {
             "name": "add", "arguments": {"a": 2, "b": 2.5}}}]},
         {"role": "tool", "name": "add", "content": "4"}, {"role": "assistant", "content": "It is 4 \U0001f600"}]
MARKED = {
    "chatml": "{%- for m in messages -%}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
              "<|im_end|>\n{% endgeneration %}{% else %}{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
              "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "tools": "{{ bos_token }}{% if tools %}[TOOLS]{{ tools | tojson }}[/TOOLS]\n{% endif %}{% for m in messages %}[{{ m.role }}] "
             "{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim }}{% for c in m.tool_calls or [] %}"
             "<tool>{{ c.function.name }}({{ c.function.arguments | tojson }})</tool>{% endfor %}{{ eos_token }}{% endgeneration %}"
             "{% else %}{{ m.content }}{% endif %}\n{% endfor %}",
}
TOKENIZERS = {"qwen2": "<|endoftext|>", "llama3": "</s>", "gpt2": "<|endoftext|>", "llama2": "</s>", "gemma": "</s>"}


class AskedForDate(Exception):
    pass


class NoDate(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        raise AskedForDate


# The tokens of a text with a date differ by the day.
chat_template_utils.datetime = NoDate


def published():
    with open(os.path.join(GOLDEN, "chat", "published.jsonl")) as file:
        return {line["model"]: line["template"] for line in map(json.loads, file)}


def marks_answers(template):
    return re.search(r"{%-?\s*generation\s*-?%}", template) is not None


def by_prefix(tokenizer, messages, tools):
    def render(count, prompt):
        return tokenizer.apply_chat_template(messages[:count], tools=tools, tokenize=False, add_generation_prompt=prompt)

    whole = render(len(messages), False)
    out = tokenizer(whole, add_special_tokens=False)
    mask = [0] * len(out["input_ids"])
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before, through = render(i, True), render(i + 1, False)
        if not (whole.startswith(through) and through.startswith(before)):
            return None
        first = out.char_to_token(len(before))
        last = out.char_to_token(len(through) - 1)
        mask[first:last + 1] = [1] * (last + 1 - first)
    return mask


def main():
    templates = {**MARKED, **published()}
    chats = [{"messages": chat} for chat in CONVERSATIONS if any(m["role"] == "assistant" for m in chat)]
    chats += [{"messages": said(("user", "Hi"), ("assistant", "Yes"), ("user", "Sure?"), ("assistant", "Ja \u2013 klar"))},
              {"messages": said(("system", "Be brief. /system_override"), ("user", "Hi"), ("assistant", "Yes"), ("user", "Sure?"),
                                ("assistant", "Ja \u2013 klar"), ("user", "So?"), ("assistant", "  <think>\nx\n</think>\n\nno  "))},
              {"messages": CALLS, "tools": [TOOL]}]
    with open(os.path.join(GOLDEN, "chat", "masks.jsonl"), "w") as out:
        print(json.dumps({"templates": templates}, separators=(",", ":")), file=out)
        for name, end in TOKENIZERS.items():
            for label, template in templates.items():
                is_marked = marks_answers(template)
                if not is_marked and name not in ("qwen2", "llama2"):
                    continue
                # Whose decoder makes a space of that character.
                if name == "llama2" and "\u2581" in template:
                    continue
                special = {"bos_token": "<s>", "eos_token": end}
                tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(GOLDEN, "tokenizer", name + ".json"))
                tokenizer.chat_template = template
                # The texts are the template's alone: a token that is added would change the tokenizer.
                tokenizer._special_tokens_map.update(special)
                for line in chats:
                    messages, tools = line["messages"], line.get("tools")
                    try:
                        if is_marked:
                            made = tokenizer.apply_chat_template(messages, tools=tools, tokenize=True, return_dict=True,
                                                                 return_assistant_tokens_mask=True)
                            mask = made["assistant_masks"]
                        else:
                            mask = by_prefix(tokenizer, messages, tools)
                    except AskedForDate:
                        row = {"tokenizer": name + ".json", "template": label, "special": special, "line": line, "mask": None,
                               "says": "asks for the date"}
                        print(json.dumps(row, separators=(",", ":")), file=out)
                        continue
                    except Exception as error:
                        print(name, label, type(error).__name__, error)
                        continue
                    row = {"tokenizer": name + ".json", "template": label, "special": special, "line": line,
                           "mask": None if mask is None else "".join(map(str, mask))}
                    print(json.dumps(row, separators=(",", ":")), file=out)


if __name__ == "__main__":
    main()
