"""tools/statements.py finds statements that are chained by commas, and writes them out, declarations with side effects,
and choices that nest three deep on a line; and only those."""

import importlib.util
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("statements", Path(__file__).parents[2] / "tools/statements.py")
statements = importlib.util.module_from_spec(spec)
spec.loader.exec_module(statements)


def found(body):
    code = statements.masked("static int f(int n) {\n" + body + "\n}\n")
    return [code[start:end] for start, end, _, _ in statements.chains(code)]


@pytest.mark.parametrize(
    "body",
    [
        "a = 1, b = 2;",
        "return release(p), NULL;",
        "if (n) close(a), close(b);",
        "for (int i = 0, k = 1; i < n; i++) a += i, b -= i;",
        "case 3: a = 1, b = 2; break;",
        "list = (pair){1, 2}, n = 2;",
        "else\n    a = f(1, 2), b = 3; /* why */",
    ],
)
def test_chains_are_found(body):
    assert len(found(body)) == 1


@pytest.mark.parametrize(
    "body",
    [
        "int a = 1, b = 2;",
        "long long quota, period;",
        "_Alignas(8) char table[64], options[8];",
        "return given(t) ? looked(t), t->data : NULL;",
        "tp_tensor *x = f(a, b), *y = g(a, b);",
        'const char *name, *text = "a, b";',
        "call(a, b, (pair){1, 2});",
        "for (i = 0, k = 1; i < n; i++, k++) call(i, k);",
        "#define TWO(a, b) a = 1, b = 2;",
        "/* a = 1, b = 2; */ static const int list[] = {1, 2, 3};",
        "pair p = {.a = 1, .b = 2};",
        "return (pair){1, 2};",
        "enum { FIRST, SECOND };",
        "F(vector) a = first, b = second;",
    ],
)
def test_other_commas_are_left_alone(body):
    assert found(body) == []


def test_chains_are_written_out():
    code = "void f(void) {\n    if (n) a = 1, b = g(2, 3); /* why */\n    return h(a), b;\n}\n"
    assert statements.written_out(code) == (
        "void f(void) {\n    if (n) { /* why */\n        a = 1;\n        b = g(2, 3);\n    }\n    h(a);\n    return b;\n}\n"
    )


def inside(body):
    return "static int f(int n) {\n" + body + "\n}\n"


@pytest.mark.parametrize(
    "body",
    [
        "return ok ? p : (free(p), NULL);",
        "return done(p) || (note(p), false);",
        "x = (a = 1, b);",
        "call(1, (note(), 2));",
        "if ((n = read(p), n > 0)) call();",
    ],
)
def test_chains_in_parentheses_are_found(body):
    assert len(list(statements.hidden_chains(statements.masked(inside(body))))) == 1


@pytest.mark.parametrize("body", ["call(a, (b), f(c, d));", "x = (pair){1, 2};", "table[i](a, b);", "(*p)(a, b);"])
def test_arguments_are_left_alone(body):
    assert list(statements.hidden_chains(statements.masked(inside(body)))) == []


@pytest.mark.parametrize(
    "body",
    [
        "entry *e = a->e = make();",
        "bool ok = p && (q = make(p));",
        "int last = v[--n], first = v[0];",
        "uint64_t z = *state += 3;",
    ],
)
def test_declarations_with_side_effects_are_found(body):
    assert len(list(statements.side_effects(statements.masked(inside(body))))) == 1


@pytest.mark.parametrize(
    "body",
    [
        "int at = n++;",
        "bool same = a == b, less = a <= b;",
        "tp_tensor *y = tp_sum(x, .dim = TP_INTS(0), .keepdim = true), *z = x;",
        "int table[3] = {[0] = 1, [2] = 2};",
        "a = b = 0;",
    ],
)
def test_other_declarations_are_left_alone(body):
    assert list(statements.side_effects(statements.masked(inside(body)))) == []


def nested(body):
    return statements.nested_choices(statements.masked("static int f(int n) {\n" + body + "\n}\n"))


@pytest.mark.parametrize(
    "body",
    [
        "return a ? 1 : b ? 2 : c ? 3 : 4;",
        "x = a ? b ? c ? 1 : 2 : 3 : 4;",
        "call(1, a ? f(b ? g(c ? 1 : 2) : 3) : 4);",
        "int first = 1, x = a ? 1 : (b ? 2 : (c ? 3 : 4));",
        "if (a ? 1 : b ? 2 : c ? 3 : 4) call();",
    ],
)
def test_choices_three_deep_on_a_line_are_found(body):
    assert len(nested(body)) == 1


@pytest.mark.parametrize(
    "body",
    [
        "return a ? 1 : b ? 2 : 3;",
        "call(a ? 1 : 2, b ? 3 : 4, c ? 5 : 6);",
        "int x = a ? 1 : 2, y = b ? 3 : 4, z = c ? 5 : 6;",
        "return a   ? 1\n       : b ? 2\n       : c ? 3\n           : 4;",
        'call("a ? 1 : b ? 2 : c ? 3 : 4"); /* a ? 1 : b ? 2 : c ? 3 : 4 */',
        "switch (n) {\n    case A: return a ? 1 : 2;\n    }\n    x = b ? 3 : c ? 4 : 5;",
    ],
)
def test_other_choices_are_left_alone(body):
    assert nested(body) == []


def test_functions_whose_names_macros_make_are_looked_at():
    code = statements.masked(
        "void TPI_ISA(K(step))(int64_t n, T *x) {\n    T *restrict a = x, *restrict b = x + n;\n    a[0] = 1, b[0] = 2;\n}"
    )
    assert [code[start:end] for start, end, _, _ in statements.chains(code)] == ["a[0] = 1, b[0] = 2;"]
    assert found("list = (pair){1, 2};\n    use((list_of(int)){3, 4});") == []


def test_products_that_are_cut_before_the_star_are_found():
    def cut(body):
        return len(list(statements.cut_products(statements.masked(body))))

    assert cut("for (i = 0; i < n; i++) dx[i] = g[i] - EXP(y[i])\n    *s;") == 1
    assert cut("const int64_t at = group * ROWS\n    *r->n * r->row;") == 1
    assert cut("if (ok)\n    *out = 1;\nelse\n    *out = 2;\nint *a, /* first */\n    *b;") == 0
