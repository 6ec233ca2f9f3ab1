use super::*;

#[test]
fn groups_cover_all_columns() {
    for cols in [1, 5, 63, 64, 65, 100, 128, 129, 1000, 65_534, 65_535] {
        let shape = Shape::flat(cols);
        assert!(shape.widths.len() <= MAX_GROUPS, "{cols}");
        let covered = shape.widths.len() * group_size(cols);
        assert!((cols..cols + group_size(cols)).contains(&covered), "{cols}");
        let mut wide = shape;
        (0..cols).for_each(|idx| wide.widen(idx, 7));
        assert_eq!(wide.row_bits(), 3 * cols, "{cols}");
    }
}

#[test]
fn common_columns_are_in_one_group_of_each_page() {
    let sizes = [1, 5, 63, 64, 65, 100, 128, 129, 1000, 65_534, 65_535];
    for (from, to) in sizes.iter().flat_map(|&from| sizes.map(|to| (from, to))) {
        let mut next = 0;
        for common in common_columns(from, to) {
            assert_eq!(common.columns.start, next, "{from} {to}");
            assert!(!common.columns.is_empty());
            for idx in [common.columns.start, common.columns.end - 1] {
                let groups = (idx / group_size(from), idx / group_size(to));
                assert_eq!(common.groups, groups, "{from} {to}: {idx}");
            }
            next = common.columns.end;
        }
        assert_eq!(next, from.min(to));
        assert!(common_columns(from, to).count() <= 2 * MAX_GROUPS);
    }
}
