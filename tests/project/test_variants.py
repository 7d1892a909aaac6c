"""Every variant with every option: what is refused is said in one sentence, and is little."""

import variants


def test_the_table_is_current_and_at_most_one_pair_in_ten_is_refused():
    found = list(variants.pairs())
    tried = [one for one in found if not one.meaningless]
    refused = [one for one in tried if one.refusal]
    assert len(refused) <= len(tried) / 10
    assert all("\n" not in one.refusal for one in found)
    assert variants.PAGE.read_text(encoding="utf-8") == variants.page(found)
