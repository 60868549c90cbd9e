# SPDX-License-Identifier: Apache-2.0
"""Templates of our own for chat_templates.py: one for each thing that Jinja has and chat templates use."""

CONTEXT = {
    "text": "Hello, World",
    "uni": "Grüße, 世界 \U0001f600!",
    "blank": "  two  words \n",
    "lines": "a\nb\r\n\nc\n",
    "n": 7, "neg": -3, "x": 2.5, "big": 123456789012, "tiny": 0.00001, "yes": True, "no": False, "nil": None,
    "nums": [3, 1, 2, 3], "words": ["b", "A", "c", "B"], "empty": [], "nested": [[1, "two", None], {"k": [True, 2.0]}],
    "d": {"b": 1, "a": "x", "items": 9, "C": None}, "people": [
        {"name": "Ann", "age": 31, "tags": ["x"]}, {"name": "bob", "age": 25, "tags": []},
        {"name": "Cy", "age": 31, "boss": {"name": "Ann"}}],
}

# Each is rendered alone as {{ ... }}.
EXPRESSIONS = """
n + 2 * 3 ** 2 - 1
(n, neg, x, -n // 2, -n % 3, n // -2, n % -3, n / 2)
2 ** -1, 2 ** 3 ** 2, -2 ** 2, 7.5 // 2, -7.5 % 2, 1e16, 1e-5, 1.0, 100000.0 * 1e11, 0.1 + 0.2
n / 0
n % 0
1_000 + 1, 1e3, 2.5e-3, 10.0 / 4
yes + 1, yes == 1, no == 0, true and 0, none or 'z', not none, 1 and 2 and 3
text ~ n ~ nil ~ yes ~ x ~ nums ~ d
text + 1
text + ' ' + uni
text * 2, 3 * 'ab', [1] * 3, 'a' * -1
1 < 2 < 3, 1 < 3 < 2, 'a' < 'b', [1, 2] < [1, 3], 1 == 1.0, '1' == 1, none == none, [] == [], {} == {}, (1,) == [1]
'a' < 1
none < 1
1 in nums, 4 in nums, 'ell' in text, 'x' not in text, 'a' in d, 'z' in d, 1 not in nums
1 in text
'a' in missing, missing in nums
nums[0], nums[-1], nums[9], nums['x'], nums[yes]
nums[1:], nums[:-1], nums[::-1], nums[::2], nums[5:], nums[-2:], nums[3:0:-1], nums[:], nums[1:3]
text[0], text[-1], text[1:4], text[::-1], uni[7:9], uni[-2], uni[::3]
nil[1:]
missing[1:]
missing.x
missing
missing is defined
missing.x is defined
d.b, d['a'], d['items'], d.zz, d.get('b'), d.get('q'), d.get('q', 4)
d.zz.y
nil.x
nil.x.y
d.b is defined, d.zz is undefined, d.zz is not defined
text.upper(), text.lower(), text.title(), uni.lower(), 'aB'.capitalize()
blank.strip(), blank.lstrip(), blank.rstrip(), 'xxaxx'.strip('x'), 'abc'.lstrip('ab'), 'abc'.rstrip('bc'), '--a--'.strip('-')
'a,b,,c'.split(','), 'a b  c '.split(), 'a,b,c'.split(',', 1), 'a,b,c'.rsplit(',', 1), ' a b '.split(' '), 'abc'.split('x'), ''.split(), ''.split(',')
' a  b c '.split(none, 1), ' a  b c '.rsplit(none, 1), ' a '.split(none, 0), ' a '.rsplit(none, 0)
'abc'.split('')
text.startswith('He'), text.startswith(('x', 'H')), text.endswith('ld'), text.startswith('el', 1), text.endswith('Hell', 0, 4)
text.find('o'), text.find('zz'), text.rfind('o'), text.count('o'), text.index('W'), uni.find('世'), 'aaa'.count(''), text.find('o', 5)
text.index('zz')
text.replace('o', '0'), text.replace('o', '0', 1), 'aa'.replace('', '-'), 'ab'.replace('b', '')
', '.join(words), ''.join(empty), '-'.join('abc')
', '.join(nums)
'{} and {}'.format(1, 'x'), '{1}{0}'.format('a', 'b'), '{a}{{}}'.format(a=3)
'%s is %d, %i%%' % ('x', 3, 4), '%05d|%-4d|%.2f|%x' % (42, 7, 3.14159, 255), '%s' % n
'%s %s' % (1,)
lines.splitlines(), lines.splitlines(true), 'a'.partition('b'), 'a=b=c'.partition('='), 'a=b=c'.rpartition('=')
'12'.isdigit(), ''.isdigit(), 'a1'.isalnum(), 'ab'.isalpha(), ' '.isspace(), 'AB'.isupper(), 'aB'.islower(), 'a'.isascii()
'7'.zfill(3), '-7'.zfill(4), 'a'.ljust(3), 'a'.rjust(3), 'ab'.center(5), 'a'.center(4, '*'), 'unhappy'.removeprefix('un'), 'a.b'.removesuffix('.b')
d.keys() | list, d.values() | list, d.items() | list
text.nothing is defined, text.nothing
words.append(1)
d.update({})
d.pop is defined, words.append is defined
nums | length, text | length, uni | length, d | length, missing | length, nums | count
n | length
nums | first, nums | last, text | first, empty | first, empty | last, d | first, d | last
nums | join, nums | join(', '), people | join(', ', attribute='name'), text | join('.'), missing | join('x'), d | join
n | join
text | upper, text | lower, text | title, text | capitalize, uni | lower, 'foo-bar (baz) qux' | title, n | upper, nil | lower
text | trim, blank | trim, 'xax' | trim('x'), n | trim
text | replace('l', 'L'), text | replace('l', 'L', 1), n | replace(7, 'x')
nums | sort, words | sort, words | sort(true), words | sort(case_sensitive=true), people | sort(attribute='age') | map(attribute='name') | list
nested | sort
['b', 1] | sort
d | dictsort, d | dictsort(reverse=true)
{'b': 2, 'a': 1} | dictsort(by='value'), {'b': 1, 'A': 2} | dictsort(true)
nums | unique | list, words | unique | list, people | unique(attribute='age') | map(attribute='name') | join
nums | reverse | list, text | reverse, d | reverse | list
nums | min, nums | max, nums | sum, empty | sum, people | sum(attribute='age'), words | min, empty | max
people | map(attribute='name') | list, words | map('upper') | join(','), people | map(attribute='boss.name', default='-') | list, nums | map('string') | list
people | selectattr('boss') | map(attribute='name') | list, people | rejectattr('boss', 'defined') | map(attribute='name') | list
people | selectattr('age', 'equalto', 31) | list | length, people | selectattr('age', '>', 30) | map(attribute='name') | list, people | selectattr('name', 'in', ['bob']) | list
nums | select('odd') | list, nums | reject('equalto', 3) | list, [0, 1, '', 'a', none] | select | list, nums | select('divisibleby', 3) | list
people | selectattr('boss') | selectattr('boss.name', 'eq', 'Ann') | map(attribute='name') | first
missing | default('z'), nil | default('z'), '' | default('z', true), '' | default('z'), d.zz | d(3), nil | default('q', boolean=true)
'12' | int, ' 12 ' | int, 'x' | int, 'x' | int(5), '3.9' | int, 3.9 | int, nil | int, '1_0' | int, true | int, '-4' | int
missing | int
'1.5' | float, 'x' | float, n | float, '1e3' | float, nil | float
2.5 | round, 3.5 | round, 2.567 | round(2), 2.1 | round(method='ceil'), 2.9 | round(0, 'floor'), 5 | round, -0.4 | round
neg | abs, -2.5 | abs
n | string ~ 1, x | string, nested | string
text | list, d | list, nums | list, missing | list
text | indent, lines | indent(2), lines | indent(2, true), lines | indent(2, false, true), lines | indent('> ')
'a' | center(5), '%s-%s' | format(1, 'b')
d | items | list, missing | items | list
n | items | list
d | attr('b') is defined, text | attr('upper') is defined
nested | tojson, text | tojson, uni | tojson, d | tojson, nil | tojson, x | tojson, 'a"b\\\\c\\n\\t\\x01/<>&\\u007f' | tojson
nested | tojson(indent=2)
d | tojson(indent=0), d | tojson(indent='\\t'), [] | tojson(indent=2), {} | tojson(indent=2), [[], {}] | tojson(indent=1)
d | tojson(sort_keys=true), uni | tojson(true), nums | tojson(separators=(',', ':')), {'a': 1} | tojson(separators=[', ', '='])
{1: 'a', none: 2, true: 3, 2.5: 4} | tojson
missing | tojson
(1, 'a') | tojson, 1e20 | tojson, tiny | tojson
nums | map('upper') | tojson
n is number, x is number, yes is number, text is number, n is integer, yes is integer, x is float, yes is boolean, nil is boolean
text is string, n is string, nums is string, d is mapping, nums is mapping, nums is sequence, d is sequence, text is sequence, n is sequence, missing is sequence
nums is iterable, n is iterable, text is iterable, missing is iterable, nil is none, missing is none, d.items is callable, n is callable
yes is true, yes is false, 1 is true, no is false, 3 is odd, 3 is even, 9 is divisibleby(3), 9 is divisibleby 4
n is eq 7, n is equalto(8), n is ne 7, n is lt 8, n is gt(8), n is le 7, n is ge 8, n is greaterthan 3, n is lessthan 3, n is in [7], n is in(nums), n is not in [7], n is not string
'abc' is lower, 'ABC' is upper, 'aB' is lower, nil is sameas none, yes is sameas true, yes is sameas(false)
n is nosuchtest
n | nosuchfilter
nosuchfunction()
n()
'a' if yes else 'b', 'a' if no else 'b', ('a' if no) is defined, 'a' if no, 1 if no else 2 if no else 3
range(3) | list, range(1, 4) | list, range(5, 0, -2) | list, range(3)[1], range(0) | length, 2 in range(3)
range(200000)
dict(a=1, b='x'), dict({'z': 1}, y=2), dict([('p', 1)])
{'a': 1, 'b': {'c': [1, 2]}, 'a': 3}
[1, 'two', 3.0, none, true, [], {}, (), (1,), (1, 2)]
['it\\'s', "say \\"hi\\"", 'both \\' "', 'tab\\tnl\\n', 'é世\\x07\\u200b', '\\\\']
"a" "b" 'c', "\\u00e9\\x41\\101\\q", '\\'', "\\n" | length
[{}, []] | string, namespace(a=1).a, namespace({'b': 2}).b, namespace() is defined
[[1, 2], [3]] | map('first') | list, [[3, 4]] | map('join', '-') | list
nums[0] if nums else 'none', (nums | length) > 3, not nums, not empty
text[1:3].upper(), d['a'].upper() ~ '!', people[0].name[0], people[-1]['boss']['name'] | lower
people[0]['tags'][0], people[1].tags[0] is defined, people.0.name, nums.1
missing == missing, missing == none, missing == '', missing != none
missing < 1
missing + 1
missing ~ 'a', missing or 'b', not missing
-missing
'a' 'b' | upper, -n | abs, -(n | abs), n|string|length, 'x' ~ 'y' | upper
1 + 2 | string
(people | selectattr('age', 'eq', 31)) is iterable, (nums | select('odd') | list)[0]
nums | select('odd') | length
nums | join(',') | replace(',', ';') | upper | length
1 if true, [1 if false else 2], (1 if none) or 'f'
'abc' is in 'xabcx', 'a' == 'a' == 'a', not 1 == 2, not (1 == 2), 1 if not 0 else 2
raise_exception('no ' ~ n)
strftime_now('%Y-%m-%d %H:%M:%S %d %b %B %A %j')
loop is defined, caller is defined
text | safe, (text | safe) ~ '<', text | safe | length
'a\\\nb'
""".strip("\n").split("\n")

# Whole templates, separated by lines of ====.
TEMPLATES = r"""
{% for i in nums %}{{ i }}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}|{% endfor %}
====
{% for i in empty %}x{% else %}none{% endfor %}{% for i in missing %}x{% else %}gone{% endfor %}
====
{% for i in nums if i != 3 %}{{ loop.index }}/{{ loop.length }}:{{ i }}{% if not loop.last %}, {% endif %}{% else %}no{% endfor %}{% for i in nums if i > 9 %}x{% else %}no{% endfor %}
====
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in uni %}[{{ c }}]{% endfor %}
====
{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }} {% endfor %}{% for (a, b) in [[1, 2]] %}{{ a }}{{ b }}{% endfor %}
====
{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}
====
{% for i in n %}{% endfor %}
====
{% for i in nil %}{% endfor %}
====
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}
====
{% for i in [1, 2] %}{% for j in [3, 4] %}{{ loop.index }}{{ i }}{{ j }}{% if j == 3 %}{% continue %}{% endif %}.{% endfor %}{{ loop.index }}{% endfor %}
====
{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
====
{% set ns = namespace(found=false, count=0) %}{% for i in nums %}{% set ns.count = ns.count + i %}{% if i == 2 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.count }}{{ ns.found }}{{ ns.missing is defined }}
====
{% set ns = namespace(stop=false) %}{% for i in nums if not ns.stop %}{{ i }}{% if i == 1 %}{% set ns.stop = true %}{% endif %}{% endfor %}
====
{% set ns = namespace(stop=false) %}{% for i in nums if not ns.stop %}{{ i }}{{ loop.last }}{% if i == 1 %}{% set ns.stop = true %}{% endif %}{% endfor %}
====
{% set d.b = 3 %}{{ d.b }}
====
{% set q.b = 3 %}
====
{% if no %}a{% elif nil %}b{% elif n %}c{% else %}d{% endif %}{% if no %}a{% else %}e{% endif %}{% if no %}a{% endif %}
====
{% if yes %}{% set inner = 5 %}{% endif %}{{ inner }}{% if no %}{% set never = 5 %}{% endif %}{{ never is defined }}{{ never }}
====
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}{% set (c, e) = [5, 6] %}{{ c + e }}
====
{% set block %}  x {{ n }} {% for i in [1, 2] %}{{ i }}{% endfor %} {% endset %}[{{ block }}]{% set up | upper | trim %} ab {{ n }} {% endset %}[{{ up }}]
====
{% macro greet(name, mark='!', n=3) %}Hi {{ name }}{{ mark }}{{ n }}{% endmacro %}{{ greet('A') }}{{ greet('B', '?') }}{{ greet(name='C', n=1) }}{{ greet() }}
====
{% macro greet(name) %}Hi{% endmacro %}{{ greet('A', 'B') }}
====
{% macro greet(name) %}Hi{% endmacro %}{{ greet(nam='A') }}
====
{% macro fact(k) %}{% if k <= 1 %}1{% else %}{{ k * (fact(k - 1) | int) }}{% endif %}{% endmacro %}{{ fact(6) }}
====
{% macro many() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ many(1, 2, a=3) }}
====
{% macro outer() %}{{ later }}{% endmacro %}{% set later = 9 %}{{ outer() }}
====
{% macro box(title) %}<{{ title }}:{{ caller() }}>{% endmacro %}{% call box('t') %}in {{ n }}{% endcall %}
====
{% macro each(all) %}{% for i in all %}{{ caller(i) }},{% endfor %}{% endmacro %}{% call(i) each(nums) %}<{{ i }}>{% endcall %}
====
{% macro none() %}x{% endmacro %}{% call none() %}y{% endcall %}
====
{% macro a(x) %}{% macro b(y) %}{{ x }}{{ y }}{% endmacro %}{{ b(2) }}{% endmacro %}{{ a(1) }}
====
{% filter upper | replace('A', '-') %}a b {{ text }}{% endfilter %}
====
{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z is defined }}
====
{% set a = 5 %}{% with a = 1, b = a %}{{ b }}{% endwith %}
====
{% raw %}{{ not }} {% if %} {# kept #}{% endraw %}|{%- raw -%}  {{ x }}  {%- endraw -%}  |
====
a {# comment #} b {#- tight -#} c
{# a line #}
d
====
  {% if yes %}
    kept
  {% endif %}
  end
====
x
  {%- if yes -%}
    tight
  {%- endif -%}
  y
====
x
  {%+ if yes +%}
    plus
  {%+ endif %}
  y
====
 {{ n }} {{- n }} {{ n -}} {{+ n }} |
====
{{ "a" }}
{{ "b" }}

{% set q = 1 %}
{{ "c" -}}
  
   d
====
text {% set a = 1 %}
 more	{% set b = 2 %} rest
	{% set c = 3 %}
x
====
{{ {'a': {'b': 1}}['a']['b'] }}{{ {"x": "}}"}["x"] }}{{ '%}' }}{% set t = '%}' %}{{ t }}
====
{% generation %}gen {{ n }}{% set inside = 1 %}{% endgeneration %}{{ inside is defined }}
====
{% for m in [1, 2] %}
{%- generation -%}
  <{{ m }}{{ loop.index }}>
{% endgeneration %}
{% endfor %}
====
{% print n, text %}
====
{% for i in nums %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i) }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}
====
{% for i in people | map(attribute='name') %}{{ loop.last }}{{ i }}{{ loop.length }}{% endfor %}{% set g = nums | select('odd') %}{% for i in g %}{{ i }}{% endfor %}-{% for i in g %}{{ i }}{% endfor %}{% if g %}true{% endif %}
====
{% set g = nums | map('string') %}{{ g | first }}{{ g | join }}{{ g | list }}
====
{% for i in [1, 2, 3] | reverse %}{{ i }}{% endfor %}{% for k, v in d | dictsort %}{{ k }}{{ v }}{% endfor %}{% for k, v in d | items %}{{ k }}{% endfor %}
====
{% if n == 7 and text is string or missing.x %}short{% endif %}{% if no and missing.x %}{% else %}cut{% endif %}
====
{{ n }
====
{% if n %}
====
{% endfor %}
====
{% for i in nums %}{% endif %}
====
{% nosuchtag %}
====
{{ n | }}
====
{{ 'open }}
====
{# open
====
{% raw %} open
====
{{ (1 }}
====
{{ a b }}
====
{% set 1 = 2 %}
====
{% break %}
====
{{ f(a=1, 2) }}
====
{% macro m() %}{{ raise_exception('inside') }}{% endmacro %}{% for i in nums %}{{ i }}{% endfor %}{{ m() }}
====
{{ '' if n }}{% if n == 8 %}{{ raise_exception('never') }}{% endif %}fine
====
{%- for m in messages -%}{{ m.role }}{%- endfor -%}
{% if bos_token is defined %}{{ bos_token }}{% endif %}{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}
====
{% for i in nums recursive %}{{ i }}{% endfor %}
====
{% for i in nums -%}
   {{ i }}
{%- if not loop.last %}, {% endif -%}
{% endfor %}
{%- set ns = namespace(a=[]) %}
{%- for i in nums %}
  {%- set ns.a = ns.a + [i * 2] %}
{%- endfor %}
{{ ns.a }}
====
{% set m = messages[0] %}{% if m['role'] == 'user' %}{{ m['content'] | trim }}{% endif %}{{ messages | length }}{{ messages[1:] | map(attribute='role') | join('>') }}
====
{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{{ message.content }}{% endfor %}
""".strip("\n").split("\n====\n")
