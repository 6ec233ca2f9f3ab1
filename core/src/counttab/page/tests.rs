use super::*;

#[test]
fn sizes_are_those_of_the_allocator() {
    for (bytes, size) in [
        (1, 16),
        (16, 16),
        (17, 32),
        (128, 128),
        (129, 160),
        (160, 160),
        (161, 192),
        (257, 320),
    ] {
        assert_eq!(rounded(bytes), size, "{bytes}");
    }
    for (bytes, size) in [
        (513, 640),
        (1024, 1024),
        (1025, 1280),
        (3000, 3072),
        (4097, 5120),
        (327_680, 327_680),
    ] {
        assert_eq!(rounded(bytes), size, "{bytes}");
    }
}

#[test]
fn groups_cover_all_columns() {
    for cols in [1, 5, 63, 64, 65, 100, 128, 129, 1000, 65_534, 65_535] {
        let shape = Shape::flat(cols);
        assert!(shape.widths.len() <= GROUPS, "{cols}");
        let covered = shape.widths.len() * group_size(cols);
        assert!((cols..cols + group_size(cols)).contains(&covered), "{cols}");
        let mut wide = shape;
        (0..cols).for_each(|idx| wide.widen(idx, 7));
        assert_eq!(wide.row_bits(), 3 * cols, "{cols}");
    }
}

#[test]
fn pages_share_columns_in_pieces_of_one_group_each() {
    let sizes = [1, 5, 63, 64, 65, 100, 128, 129, 1000, 65_534, 65_535];
    for (from, to) in sizes.iter().flat_map(|&from| sizes.map(|to| (from, to))) {
        let mut next = 0;
        for piece in shared(from, to) {
            assert_eq!(piece.columns.start, next, "{from} {to}");
            assert!(!piece.columns.is_empty());
            for idx in [piece.columns.start, piece.columns.end - 1] {
                let groups = (idx / group_size(from), idx / group_size(to));
                assert_eq!(piece.groups, groups, "{from} {to}: {idx}");
            }
            next = piece.columns.end;
        }
        assert_eq!(next, from.min(to));
        assert!(shared(from, to).count() <= 2 * GROUPS);
    }
}
