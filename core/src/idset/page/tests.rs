use super::*;

#[test]
fn small_pages_take_few_bytes() {
    let cost = |members: &[u64]| Page::from_sorted(members).allocated();
    assert_eq!(cost(&[]), 0);
    assert_eq!(cost(&[7]), 8);
    assert_eq!(cost(&[u64::MAX]), 16);
    assert_eq!(cost(&[1 << 31, (1 << 31) + 255]), 16);
    assert_eq!(cost(&[0, 1, 2, 3, 4, 5, 6, 7]), 16);
    assert_eq!(cost(&[0, u64::MAX]), 32);
}

#[test]
fn pages_of_every_width_keep_their_members() {
    for base_bits in 0..64 {
        for offset_bits in 0..64 {
            let base = (1u64 << base_bits) - 1;
            let far = base.saturating_add(1 << offset_bits);
            let page = Page::from_sorted(&[base, far]);
            page.validate().unwrap();
            assert_eq!(page.iter().collect::<Vec<_>>(), [base, far]);
            // In several orders, to cover every way of rewriting a page.
            for order in [
                [base, far, far - 1],
                [far, base, far - 1],
                [far - 1, far, base],
            ] {
                let mut page = Page::empty();
                let mut model = Vec::new();
                for m in order {
                    let new = !model.contains(&m);
                    assert_eq!(page.insert(m) == Inserted::Added, new);
                    page.validate().unwrap();
                    if new {
                        model.push(m);
                        model.sort_unstable();
                    }
                    assert_eq!(page.iter().collect::<Vec<_>>(), model);
                }
                for m in order {
                    assert_eq!(page.remove(m), model.contains(&m));
                    model.retain(|&x| x != m);
                    page.validate().unwrap();
                    assert_eq!(page.iter().collect::<Vec<_>>(), model);
                }
                assert_eq!(page.allocated(), 0);
            }
        }
    }
}

#[test]
fn insert_into_a_full_page_changes_nothing() {
    let members: Vec<u64> = (0..PAGE as u64).map(|i| i * 3).collect();
    let mut page = Page::from_sorted(&members);
    assert_eq!(page.insert(1), Inserted::Full);
    assert_eq!(page.insert(3), Inserted::Present);
    assert_eq!(page.len(), PAGE);
}

#[test]
fn position_is_the_rank_of_a_member() {
    let page = Page::from_sorted(&[5, 10, 15]);
    assert_eq!(page.position(4), Err(0));
    assert_eq!(page.position(5), Ok(0));
    assert_eq!(page.position(11), Err(2));
    assert_eq!(page.position(16), Err(3));
    assert_eq!((page.get(3), page.get(usize::MAX - 1)), (None, None));
    assert_eq!((page.rank(10), page.rank_after(10)), (1, 2));
    assert_eq!(Page::empty().position(0), Err(0));
}

/// The head determines the size of the allocation, so a head that would be truncated panics before anything is written.
#[test]
fn head_that_does_not_fit_its_word_panics_without_a_change() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let good = Head {
        len: 3,
        width: 8,
        scale: 1,
        base: 5,
    };
    let wrong = [
        Head { len: 0, ..good },
        Head {
            len: 1 << 16,
            ..good
        },
        Head {
            len: usize::MAX,
            ..good
        },
        Head { width: 128, ..good },
        Head { scale: 256, ..good },
    ];
    for head in wrong {
        assert!(catch_unwind(|| Page::zeroed(head)).is_err(), "{head:?}");
        let mut page = Page::from_sorted(&[5, 6, 7]);
        let set = catch_unwind(AssertUnwindSafe(|| page.set_head(head)));
        assert!(set.is_err(), "{head:?}");
        assert_eq!(page.iter().collect::<Vec<_>>(), [5, 6, 7]);
        page.validate().unwrap();
    }
    let mut empty = Page::empty();
    assert!(catch_unwind(AssertUnwindSafe(|| empty.set_head(good))).is_err());
    assert!(empty.is_empty());
}
