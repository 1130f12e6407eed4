"""The locales whose texts are compared by ICU as Spark compares them."""

from __future__ import annotations

COUNTRIES = {
    "AFG": "AF",
    "AUT": "AT",
    "BIH": "BA",
    "CAN": "CA",
    "CHN": "CN",
    "HKG": "HK",
    "IDN": "ID",
    "IND": "IN",
    "ISR": "IL",
    "MAC": "MO",
    "MNE": "ME",
    "NOR": "NO",
    "SAU": "SA",
    "SGP": "SG",
    "SRB": "RS",
    "TWN": "TW",
    "USA": "US",
}
"""Countries as Spark and as ICU writes them."""

_TABLE = """
    UNICODE:43363a74 af:3ebe7877 am:1ea6dcd6 ar:b6af2a8b ar_SAU:b6af2a8b as:513ee150 az:a41f5abb be:c30eb659
    bg:46639d4e bn:410b737a bo:e686ee9f bs:0b407451 bs_Cyrl:c7239bc4 ca:43363a74 ceb:d6de2f6d chr:a4e9e30d
    cs:065dc752 cy:c12c3c40 da:ce875ca5 de:43363a74 de_AUT:43363a74 dsb:50918d55 dz:43363a74 ee:27517f6f
    el:b96c74dd en:43363a74 en_USA:43363a74 eo:884b9d1a es:3c6136ec et:ae408437 fa:97ea6d46 fa_AFG:d366db38
    ff:43363a74 ff_Adlm:43363a74 fi:bbe151e5 fil:d6de2f6d fo:5af7b067 fr:43363a74 fr_CAN:9ead04ce fy:b15b5e56
    ga:43363a74 gl:3c6136ec gu:fce58c06 ha:fa3740f5 haw:209e682d he:5799ae78 he_ISR:5799ae78 hi:b1cfade7
    hr:0b407451 hsb:225b8a95 hu:683c3ccd hy:d0ada938 id:43363a74 id_IDN:43363a74 ig:37718e43 is:ed55e260
    it:43363a74 ja:c9c999f5 ka:ec768526 kk:b7335593 kl:c7cca93d km:84adff77 kn:2064155a ko:b0c9d940 kok:325e8668
    ku:14e1effd ky:058141ff lb:43363a74 lij:43363a74 lkt:b8695fd2 ln:fdb4bc0d lo:17f1ecc0 lt:9eb17a6c lv:13b0ac4c
    mk:63b0d344 ml:047bd7a3 mn:b735bd7f mr:325e8668 ms:43363a74 mt:a0905319 my:9b806015 nb:c05086d9
    nb_NOR:c05086d9 ne:88451d98 nl:43363a74 nn:c05086d9 no:c05086d9 nso:ac51d44d om:9a7311f2 or:d4b42466
    pa:d4771a92 pa_Guru:d4771a92 pa_Guru_IND:d4771a92 pl:8045fb1a ps:d366db38 pt:43363a74 ro:786367c5 ru:46639d4e
    sa:43363a74 se:32db1d9d si:837f83c0 sk:29deac4a sl:5eb263c3 smn:b926be67 sq:b92198a2 sr:c7239bc4
    sr_Cyrl:c7239bc4 sr_Cyrl_BIH:c7239bc4 sr_Cyrl_MNE:c7239bc4 sr_Cyrl_SRB:c7239bc4 sr_Latn:0b407451
    sr_Latn_BIH:0b407451 sr_Latn_SRB:0b407451 st:43363a74 sv:3bbcac3c sw:43363a74 ta:b6c6c4ff te:5db25717
    th:666e4169 tk:f30e50fb tn:ac51d44d to:b6dfe6fe tr:e3f37e0e ug:4cc9cf76 uk:1e32c0bb ur:77356858 vi:2db5bcf9
    wae:43363a74 wo:451de621 xh:43363a74 yi:1dea5b6b yo:7fe7d698 zh:efff52d5 zh_Hans:efff52d5 zh_Hans_CHN:efff52d5
    zh_Hans_SGP:efff52d5 zh_Hant:a78f545d zh_Hant_HKG:a78f545d zh_Hant_MAC:a78f545d zh_Hant_TWN:a78f545d
    zu:43363a74
"""
LOCALES = dict(pair.split(":") for pair in _TABLE.split())
"""Of each locale what tells its order from another one (``icu.fingerprint``)."""

OTHERS = frozenset({"blo", "br", "kk_Arab", "uz"})
"""Locales of Spark whose order ICU 66 does not have."""
