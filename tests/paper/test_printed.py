"""Names of tables and figures."""

import pytest

from apolar.paper.printed import ALIASES, FIGURES, LABELS, STUDIES, TABLES, caption, resolved


def test_every_label_is_a_table_or_a_figure():
    assert set(LABELS) == {*TABLES, *STUDIES, *FIGURES}
    assert set(ALIASES.values()) <= set(LABELS)


def test_names_are_those_of_the_source_with_the_number_in_print():
    numbers = {label: (TABLES.get(label) or STUDIES.get(label)).number for label in (*TABLES, *STUDIES)}
    expected = {"table1": 1, "table5": 2, "table2": 3, "table6": 4}
    assert numbers == expected | {"table7": 5, "table8": 6, "table9": 7, "table10": 8}
    assert caption("table7") == "table7 (Table 5 in print): Iris"
    assert caption("figure2").startswith("Figure 2: ")


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (("iris",), ["table7"]),
        (("MNIST", "Table 1", "fig3"), ["table1", "figure3", "table10"]),
        (("table7", "iris"), ["table7"]),
        (("all", "iris"), list(LABELS)),
    ],
)
def test_names_are_resolved_in_the_order_of_the_paper(names, labels):
    assert resolved(names) == labels


def test_an_unknown_name_is_told_what_there_is():
    with pytest.raises(
        ValueError, match="There is no 'table3' in the paper. Choose from table1, table2, table5"
    ):
        resolved(("table3",))


def test_each_table_has_the_four_methods():
    for table in (*TABLES.values(), *STUDIES.values()):
        assert tuple(table.rows) == ("em_km", "em_mom", "em_mbhc", "em_emEM")
