# SPDX-License-Identifier: Apache-2.0
"""Random templates for chat_templates.py: expressions and statements that mean something to Jinja more often than not."""

import random

CONTEXT = {
    "s": "Hello World", "t": " a-b c ", "u": "né世\U0001f600", "e": "", "n": 5, "m": -2, "z": 0, "f": 1.5, "g": 0.1,
    "yes": True, "no": False, "nil": None, "xs": [3, 1, 2], "ws": ["b", "a", "C"], "es": [],
    "d": {"k": 1, "name": "x", "list": [1, 2]},
    "ms": [{"role": "user", "content": "Hi", "n": 1}, {"role": "assistant", "content": " ok\n", "n": 2},
           {"role": "user", "content": "Bye", "x": None}],
}
NAMES = ["s", "t", "u", "e", "n", "m", "z", "f", "g", "yes", "no", "nil", "xs", "ws", "es", "d", "ms", "gone"]
FILTERS = ["length", "trim", "upper", "lower", "title", "capitalize", "string", "int", "float", "list", "first", "last",
           "join", "join(',')", "join('-', attribute='role')", "default('D')", "default('D', true)", "tojson",
           "tojson(indent=2)", "sort", "reverse", "reverse | list", "unique | list", "replace('a', 'Z')", "items | list",
           "dictsort", "map('string') | list", "map(attribute='role') | list", "select | list", "reject | list",
           "selectattr('role') | list", "selectattr('role', 'equalto', 'user') | list", "rejectattr('x', 'defined') | list",
           "min", "max", "sum", "abs", "round", "round(1)", "indent(2)", "count", "safe", "select('string') | list",
           "reject('none') | list", "map('upper') | list", "trim('H')", "sort(reverse=true)", "attr('upper') is defined"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "sequence", "iterable", "number", "boolean", "true", "false",
         "integer", "float", "odd", "even", "not none", "not string", "in xs", "in s", "eq 5", "equalto('')", "divisibleby 2",
         "lower", "upper", "not defined", "ne nil", "gt 1", "callable"]
METHODS = ["strip()", "lstrip()", "rstrip()", "upper()", "lower()", "title()", "split()", "split('-')", "split('o', 1)",
           "startswith('H')", "endswith('d')", "find('o')", "replace('l', 'L')", "items() | list", "keys() | list",
           "values() | list", "get('k')", "get('q', 3)", "join(ws)", "count('l')", "index(1)", "splitlines()", "rsplit('o', 1)",
           "isdigit()", "isupper()", "capitalize()", "strip('ad ')", "rfind('o')", "isalpha()", "zfill(4)", "partition('-')"]
TEXTS = ["'a'", "'-'", "''", "'Hello'", "\"it's\"", "'né'", "'x\\ny'", "'role'", "'k'"]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, options):
        return self.r.choice(options)

    def literal(self):
        return self.pick([lambda: str(self.r.randint(-3, 12)), lambda: self.pick(TEXTS), lambda: self.pick(["1.5", "0.25", "1e3"]),
                          lambda: self.pick(["true", "false", "none", "True", "None"]),
                          lambda: "[" + ", ".join(self.expression(1) for _ in range(self.r.randint(0, 3))) + "]",
                          lambda: "(" + self.expression(1) + ", " + self.expression(1) + ")",
                          lambda: "{'k': " + self.expression(1) + ", 'z': " + self.literal() + "}",
                          lambda: "(range(" + str(self.r.randint(0, 4)) + ") | list)"])()

    def atom(self, depth):
        kind = self.r.random()
        if kind < 0.55:
            return self.pick(NAMES)
        if kind < 0.8 or depth <= 0:
            return self.literal()
        return "(" + self.expression(depth - 1) + ")"

    def postfix(self, depth):
        text = self.atom(depth)
        # Jinja slices a constant while it reads the template, and then what is no sequence gives nothing instead of an error.
        slices = text in NAMES
        while self.r.random() < 0.4:
            text += self.pick([lambda: "." + self.pick(["role", "content", "k", "name", "list", "nope"]),
                               lambda: "[" + self.pick(["0", "1", "-1", "'role'", "'k'", "9", "n", "1.0"]) + "]",
                               lambda: "" if not slices else "[" + self.pick(["1:", ":-1", "::-1", ":2", "-2:", "::2", "1:2", "n:"]) + "]",
                               lambda: "." + self.pick(METHODS).split(" | ")[0]])()
        return text

    def expression(self, depth):
        if depth <= 0:
            return self.postfix(0)
        kind = self.r.random()
        if kind < 0.25:
            return self.postfix(depth - 1)
        if kind < 0.45:
            return self.postfix(depth - 1) + " | " + self.pick(FILTERS)
        if kind < 0.55:
            return self.postfix(depth - 1) + " is " + self.pick(TESTS)
        if kind < 0.85:
            sign = self.pick(["+", "-", "*", "/", "//", "%", "~", "~", "==", "!=", "<", ">=", "in", "not in", "and", "or", "+", "=="])
            return self.expression(depth - 1) + " " + sign + " " + self.expression(depth - 1)
        if kind < 0.92:
            return "not " + self.expression(depth - 1)
        return self.expression(depth - 1) + " if " + self.expression(depth - 1) + self.pick(["", " else " + self.expression(depth - 1)])

    def space(self):
        return self.pick(["", "", " ", "\n", "  \n  ", "\n\n", "x", " y ", "\t", "word\n"])

    def tag(self, text):
        return "{%" + self.pick(["", "", "-", "-", "+"]) + " " + text + " " + self.pick(["", "", "-", "+"]) + "%}"

    def body(self, depth):
        return "".join(self.space() + self.statement(depth) for _ in range(self.r.randint(1, 3))) + self.space()

    def statement(self, depth):
        kind = self.r.random()
        if depth <= 0 or kind < 0.4:
            return "{{" + self.pick(["", "-", ""]) + " " + self.expression(2) + " " + self.pick(["", "-", ""]) + "}}"
        if kind < 0.55:
            return (self.tag("if " + self.expression(2)) + self.body(depth - 1) +
                    (self.tag("elif " + self.expression(1)) + self.body(depth - 1) if self.r.random() < 0.3 else "") +
                    (self.tag("else") + self.body(depth - 1) if self.r.random() < 0.5 else "") + self.tag("endif"))
        if kind < 0.75:
            over = self.pick(["xs", "ws", "ms", "s", "d", "es", "range(3)", "ms | map(attribute='content')", "d.items()", "xs[1:]", "gone"])
            return (self.tag("for i in " + over + self.pick(["", "", " if i", " if loop is defined or i is string"])) +
                    self.pick(["", "{{ loop.index }}", "{{ loop.last }}{{ i }}", "{{ loop.length }}"]) + self.body(depth - 1) +
                    self.pick(["", "", self.tag("if i == 1") + self.tag(self.pick(["break", "continue"])) + self.tag("endif")]) +
                    (self.tag("else") + self.body(0) if self.r.random() < 0.2 else "") + self.tag("endfor"))
        if kind < 0.9:
            name = self.pick(["n", "s", "v", "w", "xs"])
            if self.r.random() < 0.3:
                return self.tag("set " + name) + self.body(0) + self.tag("endset") + "{{ " + name + " }}"
            return self.tag("set " + name + " = " + self.expression(2)) + "{{ " + name + " }}"
        if kind < 0.95:
            return (self.tag("macro mm(p, q=" + self.expression(1) + ")") + "{{ p }}" + self.body(0) + self.tag("endmacro") +
                    "{{ mm(" + self.expression(1) + ") }}")
        return "{#" + self.pick(["", "-"]) + " note " + self.pick(["", "-"]) + "#}"


def cases(count, seed):
    maker = Maker(seed)
    for k in range(count):
        template = "{{ " + maker.expression(3) + " }}" if k % 2 == 0 else maker.body(2)
        yield template, CONTEXT
