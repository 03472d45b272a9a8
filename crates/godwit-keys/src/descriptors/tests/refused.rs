//! What is refused because of what Core takes, or `miniscript` has not.

use super::*;

/// As in any descriptor that Core has and `miniscript` has not, also in a template.
#[test]
fn sorted_keys_of_a_leaf_are_not_supported() {
    let (_, keys) = POLICIES[1];
    let of = |template: &str| format!("{template}\n{}", keys.join("\n"));
    for text in [
        format!("tr({POINT},sortedmulti_a(2,{XPUB}/0/*,{XPUB}/1/*))"),
        of("tr(@0/**,sortedmulti_a(2,@0/<2;3>/*,@1/**))"),
    ] {
        let refused = watched(&text).expect_err(&text);
        assert_eq!(refused.to_string(), "descriptors with sortedmulti_a() are not supported");
    }
    let imported = split(&format!("tr({POINT},sortedmulti_a(1,{XPRV}/0))"), Main).err();
    let function = "sortedmulti_a";
    assert!(
        matches!(imported, Some(DescriptorError::Unsupported { function: f }) if f == function)
    );
}
