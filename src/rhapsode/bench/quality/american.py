"""Writes British spellings as American ones, by rules for endings and a short list of words that no rule covers."""

from __future__ import annotations

import re

_KEPT_ISE = (
    "advertise advise apprise chastise circumcise comprise compromise concise demise despise devise "
    "disenfranchise enterprise excise exercise expertise franchise improvise incise merchandise paradise precise "
    "premise promise reprise revise supervise surmise surprise televise treatise valise wise"
)
_OUR = (
    "arbour ardour armour behaviour candour clamour clangour colour demeanour dolour enamour endeavour favour "
    "fervour flavour harbour honour humour labour neighbour odour parlour rancour rigour rumour saviour savour "
    "splendour succour tumour valour vapour vigour"
)
_RE = (
    "calibre centre fibre goitre litre lustre maneuvre meagre metre mitre nitre ochre reconnoitre sabre saltpetre "
    "sceptre sepulchre sombre spectre theatre"
)
_DOUBLED = (
    "apparel bevel cancel carol channel chisel counsel cudgel dial dishevel drivel duel enamel equal fuel funnel "
    "gambol gravel grovel initial jewel kennel label laurel level libel marshal marvel medal model panel parcel "
    "pedal pencil peril pommel quarrel ravel refuel revel rival shovel shrivel signal snivel spiral squirrel "
    "stencil swivel tassel tinsel total towel trammel travel tunnel unravel weasel yodel"
)
_SINGLE_L = "appal distil enrol enthral fulfil instal instil".split()  # noqa: SIM905
_OGUE = "analogue catalogue demagogue dialogue epilogue monologue prologue travelogue".split()  # noqa: SIM905
_WORDS = {
    "aeroplane": "airplane", "aeroplanes": "airplanes", "aluminium": "aluminum", "axe": "ax", "cheque": "check",
    "cheques": "checks", "chequered": "checkered", "cosy": "cozy", "cosier": "cozier", "defence": "defense",
    "defences": "defenses", "draught": "draft", "draughts": "drafts", "draughty": "drafty", "furore": "furor",
    "gaol": "jail", "gaoler": "jailer", "gaols": "jails", "grey": "gray", "greys": "grays", "greyish": "grayish",
    "jewellery": "jewelry", "kerb": "curb", "kerbs": "curbs", "licence": "license", "licences": "licenses",
    "mould": "mold", "moulds": "molds", "moulded": "molded", "moulding": "molding", "mouldy": "moldy",
    "moult": "molt", "moustache": "mustache", "moustaches": "mustaches", "offence": "offense",
    "offences": "offenses", "omelette": "omelet", "plough": "plow", "ploughed": "plowed", "ploughing": "plowing",
    "ploughs": "plows", "practise": "practice", "practised": "practiced", "practises": "practices",
    "practising": "practicing", "pretence": "pretense", "programme": "program", "programmes": "programs",
    "pyjamas": "pajamas", "sceptic": "skeptic", "sceptical": "skeptical", "sceptics": "skeptics", "skilful": "skillful",
    "skilfully": "skillfully", "smoulder": "smolder", "smouldering": "smoldering", "storey": "story",
    "storeys": "stories", "tyre": "tire", "tyres": "tires", "wilful": "willful", "wilfully": "willfully",
    "woollen": "woolen", "woolly": "wooly", "marvellous": "marvelous", "ageing": "aging", "judgement": "judgment",
    "judgements": "judgments", "acknowledgement": "acknowledgment", "artefact": "artifact", "artefacts": "artifacts",
    "maneuvring": "maneuvering", "traveller": "traveler", "travellers": "travelers", "councillor": "councilor",
    "counsellor": "counselor", "counsellors": "counselors", "sulphur": "sulfur", "carburettor": "carburetor",
    "cancelation": "cancellation", "ok": "okay",
}  # fmt: skip
_AE_OE = (
    (r"^an(?:ae)(m|sth)", r"ane\1"),
    (r"aesthet", "esthet"),
    (r"^haem", "hem"),
    (r"^paed", "ped"),
    (r"^orthopaed", "orthoped"),
    (r"^encyclopaed", "encycloped"),
    (r"^(arch)aeo", r"\1eo"),
    (r"^diarrhoe", "diarrhe"),
    (r"^foet", "fet"),
    (r"^oestr", "estr"),
    (r"^oesoph", "esoph"),
    (r"manoeuv", "maneuv"),
    (r"^leukaem", "leukem"),
    (r"^mediaev", "mediev"),
    (r"^gynaec", "gynec"),
)
_ISE = re.compile(r"^(\w{2,}?)is(e|es|ed|er|ers|ing|ation|ations|able|ational)$")
_YSE = re.compile(r"^(anal|catal|paral|dial|hydrol|electrol|psychoanal|breathal)ys(e|ed|er|ers|ing)$")
_OUR_WORD = re.compile(rf"^(dis|mis|un|mal)?({'|'.join(word[:-3] for word in _OUR.split())})our(\w*)$")
_RE_WORD = re.compile(rf"^(\w*?)({'|'.join(word[:-2] for word in _RE.split())})re(s|d)?$")
_DOUBLED_WORD = re.compile(
    rf"^(un|re|mis|out|over|)({'|'.join(_DOUBLED.split())})l(ed|ing|er|ers|or|ors|ings|ist|ists)$"
)
_SINGLE_WORD = re.compile(rf"^({'|'.join(_SINGLE_L)})(s|ment|ments)?$")
_OGUE_WORD = re.compile(rf"^({'|'.join(word[:-2] for word in _OGUE)})ue(s|d)?$")


def american(word: str) -> str:
    """Returns the American spelling of one lower-case word."""
    if word in _WORDS:
        return _WORDS[word]
    for pattern, written in _AE_OE:
        word = re.sub(pattern, written, word)
    if found := _ISE.match(word):
        return word if _keeps_ise(found[1]) else f"{found[1]}iz{found[2]}"
    if found := _YSE.match(word):
        return f"{found[1]}yz{found[2]}"
    if found := _OUR_WORD.match(word):
        return f"{found[1] or ''}{found[2]}or{found[3]}"
    if found := _RE_WORD.match(word):
        return f"{found[1]}{found[2]}er{'ed' if found[3] == 'd' else found[3] or ''}"
    if found := _DOUBLED_WORD.match(word):
        return f"{found[1]}{found[2]}{found[3]}"
    if found := _SINGLE_WORD.match(word):
        return f"{found[1]}l{found[2] or ''}"
    if found := _OGUE_WORD.match(word):
        return f"{found[1]}{found[2] or ''}"
    return word


def _keeps_ise(stem: str) -> bool:
    """Whether a word such as `promise` or `noise` has its s in American English, too."""
    return len(stem) < 3 or stem[-1] in "aou" or f"{stem}ise".endswith(tuple(_KEPT_ISE.split()))
