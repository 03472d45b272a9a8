//! What is refused because of what Core takes, or `miniscript` has not.

use super::*;

/// Core: "Miniscript expressions can only be used in wsh or tr."
#[test]
fn miniscript_stands_in_no_sh() {
    for inner in [
        format!("and_v(v:pk({XPRV}/0),older(7))"),
        format!("or_d(pk({XPRV}/0),pk({XPRV}/1))"),
        format!("c:pk_k({XPRV}/0)"),
        format!("thresh(1,pk({XPRV}/0),s:pk({XPRV}/1))"),
    ] {
        let refused = split(&format!("sh({inner})"), Main).err();
        assert!(matches!(refused, Some(DescriptorError::MiniscriptInSh)), "{inner}: {refused:?}");
        let watching = watched(&format!("sh({})", inner.replace(XPRV, XPUB)));
        assert!(matches!(watching, Err(DescriptorError::MiniscriptInSh)), "{inner}: {watching:?}");
        assert_eq!(public(&format!("sh(wsh({inner}))")).1, 1, "{inner}");
        assert_eq!(public(&format!("tr({POINT},{inner})")).1, 1, "{inner}");
        // An entry that has it already is read.
        let public = format!("sh({})", inner.replace(XPRV, XPUB));
        assert!(PublicDescriptor::parse(public).is_ok(), "{inner}");
    }
    let policy = format!("sh(and_v(v:pk(@0/**),older(7)))\n{}", POLICIES[0].1[0]);
    assert!(matches!(watched(&policy), Err(DescriptorError::MiniscriptInSh)));
    for inner in
        ["pk(@)", "pkh(@)", "wpkh(@)", "wsh(pk(@))", "multi(1,@,@/1)", "sortedmulti(1,@,@/1)"]
    {
        let inner = inner.replace('@', &format!("{XPRV}/0"));
        assert_eq!(public(&format!("sh({inner})")).1, 1, "{inner}");
    }
}

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

/// Core takes it, and neither it nor its keys are malformed.
#[test]
fn bare_sorted_keys_are_not_supported() {
    for keys in [format!("{XPUB}/0/*,{XPUB}/1/*"), format!("02{POINT},02{POINT}")] {
        let bare = format!("sortedmulti(1,{keys})");
        for refused in [watched(&bare).map(|_| ()), split(&bare, Main).map(|_| ())] {
            let refused = refused.expect_err(&bare).to_string();
            assert_eq!(refused, "descriptors with bare sortedmulti() are not supported");
        }
        for sorted in [format!("sh({bare})"), format!("wsh({bare})"), format!("sh(wsh({bare}))")] {
            assert!(scan::scan(sorted.as_bytes()).is_ok(), "{sorted}");
        }
    }
}
