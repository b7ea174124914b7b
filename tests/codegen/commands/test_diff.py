"""What a review shows of names that a file made up."""

from __future__ import annotations

from fairhand.codegen.commands.diff import code


def test_names_are_no_markdown() -> None:
    shown = code("a`|b</details><script>x</script>\n[l](http://e) @everyone")
    assert shown.count("`") == 2 and shown[0] == shown[-1] == "`"
    assert "\n" not in shown
