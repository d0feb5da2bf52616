"""Files with source and target, and texts of programs: what is translated, where it goes, and what stays.

An echo stands in the place of a model. translate-toolkit, polib and msgfmt read the results: no code of the package does."""

import difflib
import html
import importlib
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("lxml")
from echo import ECHOES  # noqa: E402

from transformer_h import Document, Model, translate_file
from transformer_h.documents import PAIRS, File, FileError
from transformer_h.pairs_plurals import categories, code_of, forms_of, plural_rule, qt_forms
from transformer_h.pairs_text import TAG, Message, Piece, Refused, Style

GERMAN = Path(__file__).resolve().parents[3] / "examples/models/de-en.safetensors"
SEED = int(os.environ.get("SEED") or random.randrange(10 ** 6))

FILES = {
    "a.xlf": """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2" xmlns:m="http://www.memsource.com/mxlf/2.0">
  <file source-language='de' datatype="plaintext" original="Laden.html">
    <body>
      <!-- Kasse -->
      <group id="g1">
      <trans-unit id="1" xml:space="preserve">
        <source>Die <g id="1">Rechnung</g> liegt<x id="2"/> bereit &amp; wartet.</source>
        <note>Kasse</note>
      </trans-unit>
      <trans-unit id="2"><source>Er kommt <bpt id="1" rid="7">&lt;b&gt;</bpt>heute<ept id="2" rid="7">&lt;/b&gt;</ept> an.</source><target state='new'/></trans-unit>
      <trans-unit id="3"><source>Der Preis.</source><target state="needs-translation" xml:lang="en">Der Preis.</target></trans-unit>
      </group>
      <trans-unit id="4"><source>Fertig.</source><target state="signed-off">Done.</target><alt-trans><source>Fertig!</source><target>Ready!</target></alt-trans></trans-unit>
      <trans-unit id="5" approved="yes"><source>Gut.</source></trans-unit>
      <group translate="no"><trans-unit id="6"><source>Mein Laden</source></trans-unit><trans-unit id="7" translate="yes"><source>Dein Laden</source></trans-unit></group>
      <trans-unit id="8" m:locked="true"><source>Gesperrt</source><target></target></trans-unit>
      <trans-unit id="9" m:confirmed="1"><source>Sicher</source><target state="new">Sure</target></trans-unit>
      <trans-unit id="10"><source>Nur <mrk mtype="protected">Kaufhaus Meyer</mrk> hat offen.</source><seg-source><mrk mtype="seg" mid="0">Nur <mrk mtype="protected">Kaufhaus Meyer</mrk> hat offen.</mrk> <mrk mtype="seg" mid="1">Komm bald.</mrk></seg-source></trans-unit>
      <trans-unit id="11"><source>12 %</source></trans-unit>
      <trans-unit id="12"><source><![CDATA[Ein <i>alter</i> Baum & ein %s.]]></source></trans-unit>
    </body>
  </file>
</xliff>
""",
    "b.xliff": """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="de-DE">
 <file id="f1">
  <unit id="u1"><notes><note>Ein Wort</note></notes>
   <segment id="s1">
    <source>Ein <pc id="1">schneller</pc> Weg nach <ph id="2"/>.</source>
   </segment>
   <ignorable><source> </source></ignorable>
   <segment id="s2" state="initial" subState="x:y"><source>Noch <sc id="3"/>ein<ec startRef="3"/> Satz.</source><target>Noch ein Satz.</target></segment>
   <segment id="s3" state="final"><source>Ende.</source><target>The end.</target></segment>
   <segment id="s4"><source>Ohne Zustand.</source><target>Without a state.</target></segment>
  </unit>
  <unit id="u2" translate="no"><segment><source>Geheim</source></segment></unit>
  <unit id="u3"><segment><source>Von <mrk id="m1" translate="no">Anna Bauer</mrk> gemalt.</source></segment></unit>
 </file>
</xliff>
""",
    "c.tmx": """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
  <header creationtool="x" segtype="sentence" srclang="de-DE" adminlang="en" datatype="plaintext"/>
  <body>
    <tu tuid="1">
      <note>Wetter</note>
      <tuv xml:lang="de-DE">
        <seg>Morgen <bpt i="1">{b}</bpt>regnet<ept i="1">{/b}</ept> es<ph x="1">{br}</ph>.</seg>
      </tuv>
      <tuv xml:lang="fr"><seg>Demain.</seg></tuv>
    </tu>
    <tu><tuv xml:lang="de-DE"><seg>Es schneit.</seg></tuv><tuv xml:lang="en-US"><seg>It snows.</seg></tuv></tu>
    <tu><tuv xml:lang="de-DE"><seg>Es hagelt.</seg></tuv><tuv xml:lang="en-US"><seg/></tuv></tu>
  </body>
</tmx>
""",
    "d.ts": """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" sourcelanguage="de_DE">
<context>
    <name>Fenster</name>
    <message>
        <location filename="a.cpp" line="3"/>
        <source>&amp;Datei &apos;%1&apos; in %L2 öffnen</source>
        <comment>Menü</comment>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>%n Seite(n) drucken</source>
        <translation type="unfinished">
            <numerusform></numerusform>
            <numerusform></numerusform>
        </translation>
    </message>
    <message><source>Schließen</source><translation>Close</translation></message>
    <message><source>Alt</source><translation type="vanished">Old</translation></message>
    <message><source>Vorschlag</source><translation type="unfinished">Proposal</translation></message>
</context>
</TS>
""",
    "strings.xml": """<?xml version="1.0" encoding="utf-8"?>
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2" xmlns:tools="http://schemas.android.com/tools" tools:locale="de">
    <!-- Startseite -->
    <string name="app" translatable="false">Kaufladen</string>
    <string name="ref">@string/app</string>
    <string name="a">Geht\\'s dir gut,\\n<xliff:g id="name" example="Anna">%1$s</xliff:g>?</string>
    <string name="b">"Ein  Satz mit 'Zeichen' \\"hier\\""</string>
    <string name="c"><![CDATA[Ein <b>dicker</b> Text & mehr %d%%]]></string>
    <string name="d">Ein &lt;b&gt;dicker&lt;/b&gt; Text &#169; <b>hier</b></string>
    <string-array name="tage"><item>Montag</item><item>Dienstag</item></string-array>
    <item type="string" name="e">Ein Ding</item>
    <integer-array name="n"><item>1</item></integer-array>
    <plurals name="fund">
        <item quantity="one">Ein Lied gefunden</item>
        <item quantity="other">%d Lieder gefunden</item>
    </plurals>
</resources>
""",
    "Localizable.strings": """/* Gruß "x" = "y"; */
"hello" = "Guten Abend, %1$@!\\nWie geht es dir?";
// noch einer
nur_so = "Er sagt \\"nein\\" zu %lld%% \\U00fc";   "leer" = "";
"kurz";
""",
    "a.stringsdict": """<?xml version="1.0" encoding="UTF-8"?>
<plist version="1.0">
<dict>
    <key>lieder</key>
    <dict>
        <key>NSStringLocalizedFormatKey</key>
        <string>Es gibt %#@n@ im Korb</string>
        <key>n</key>
        <dict>
            <key>NSStringFormatSpecTypeKey</key>
            <string>NSStringPluralRuleType</string>
            <key>NSStringFormatValueTypeKey</key>
            <string>d</string>
            <key>one</key>
            <string>ein Lied</string>
            <key>other</key>
            <string>%d Lieder</string>
        </dict>
    </dict>
</dict>
</plist>
""",
    "a.xcstrings": """{
  "sourceLanguage" : "de",
  "strings" : {
    "Guten Tag" : {

    },
    "begruessung" : {
      "comment" : "Seite",
      "localizations" : {
        "de" : {
          "stringUnit" : {
            "state" : "translated",
            "value" : "Hallo %@, hier ist \\"%@\\"."
          }
        },
        "fr" : {
          "stringUnit" : {
            "state" : "translated",
            "value" : "Salut"
          }
        }
      }
    },
    "fertig" : {
      "localizations" : {
        "de" : { "stringUnit" : { "state" : "translated", "value" : "Fertig" } },
        "en" : { "stringUnit" : { "state" : "translated", "value" : "Done" } }
      }
    },
    "lieder" : {
      "localizations" : {
        "de" : {
          "variations" : {
            "plural" : {
              "one" : {
                "stringUnit" : {
                  "state" : "translated",
                  "value" : "%lld Lied"
                }
              },
              "other" : {
                "stringUnit" : {
                  "state" : "translated",
                  "value" : "%lld Lieder"
                }
              }
            }
          }
        }
      }
    },
    "name" : {
      "shouldTranslate" : false
    },
    "neu" : {
      "localizations" : {
        "en" : {
          "stringUnit" : {
            "state" : "new",
            "value" : "neu"
          }
        }
      }
    }
  },
  "version" : "1.0"
}
""",
    "a.po": """# Kommentar
msgid ""
msgstr ""
"Project-Id-Version: x\\n"
"Content-Type: text/plain; charset=UTF-8\\n"

#. Hinweis
#: a.c:3
#, c-format
msgid "Die Datei %s hat %d Zeilen."
msgstr ""

msgctxt "menu"
msgid "_Öffnen"
msgstr   ""

#| msgid "alt"
msgid ""
"Ein langer Satz, der über die Zeile geht.\\n"
"Eine zweite Zeile mit %(name)s, {n} und \\"Zeichen\\".\\n"
msgstr ""

#, fuzzy
msgid "Schon da"
msgstr "Already here"

msgid "Fertig"
msgstr "Done"

#, python-format
msgid "Ein Lied"
msgid_plural "%(n)d Lieder"
msgstr[0] ""
msgstr[1] ""

#~ msgid "weg"
#~ msgstr ""
""",
    "b.pot": """#, fuzzy
msgid ""
msgstr ""
"PO-Revision-Date: YEAR-MO-DA HO:MI+ZONE\\n"
"Language: \\n"
"Content-Type: text/plain; charset=CHARSET\\n"
"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"

msgid "Ein Boot"
msgid_plural "%d Boote"
msgstr[0] ""
msgstr[1] ""
""",
    "a.resx": """<?xml version="1.0" encoding="utf-8"?>
<root>
  <resheader name="version"><value>2.0</value></resheader>
  <data name="a" xml:space="preserve">
    <value>Hallo {0}, du hast {1:N0} Lieder &amp; mehr.</value>
    <comment>Gruß</comment>
  </data>
  <data name="b" xml:space="preserve"><value>Kaufladen</value><comment>{Locked}</comment></data>
  <data name="c" xml:space="preserve"><value>Ruf Meyer an</value><comment>{Locked="Meyer"}</comment></data>
  <data name="&gt;&gt;label1.Name" xml:space="preserve"><value>etwas</value></data>
  <data name="icon" type="System.Drawing.Bitmap"><value>AAEC</value></data>
</root>
""",
    "a.arb": """{
  "@@locale": "de",
  "gruss": "Hallo {name}, es ist 5 Uhr!",
  "@gruss": { "description": "Ein Gruß", "placeholders": { "name": {} } },
  "lieder": "{n, plural, =0{Kein Lied} one{Ein Lied} other{{n} Lieder mit # Strophen}}",
  "wer": "{g, select, female{Sie} other{Er}} kommt um {t, date, ::jm} an.",
  "zeile": "Eins.\\nZwei \\u00e4 \\"drei\\"."
}
""",
}


def same(sentence):
    return sentence


def through(data, name, lang="en", echo=same, **more):
    """The file with an echo in the place of the model, and the File."""
    data = data.encode() if isinstance(data, str) else data
    file, made = File(data, name, lang=lang, **more), []
    for text in file.texts:
        document = Document(text, file.format)
        made.append(document.join([echo(one) for one in document.sentences]))
    return file.join(made, lang), file


def targets(name, lang="en", echo=same):
    return through(FILES[name], name, lang, echo)[0].decode()


shout = ECHOES["capitals"]  # it says which word comes from which


# ---- what stays

COUNTS = {"a.xlf": (6, 6), "b.xliff": (3, 3), "c.tmx": (2, 1), "d.ts": (2, 3), "strings.xml": (8, 2), "Localizable.strings": (2, 1), "a.stringsdict": (3, 0),
          "a.xcstrings": (4, 2), "a.po": (4, 2), "b.pot": (1, 0), "a.resx": (2, 3), "a.arb": (4, 0)}


@pytest.mark.parametrize("name", FILES)
def test_counts(name):
    data, file = through(FILES[name], name)
    assert file.counts == {"translated": COUNTS[name][0], "left": COUNTS[name][1], "failed": 0}, file.left
    assert sum(int((re.search(r"\((\d+)\)$", one) or [0, 1])[1]) for one in file.left) == COUNTS[name][1]
    # read again, the same file has nothing left to do, or the same texts where the translation takes the place of the source
    if name.endswith((".xml", ".strings", ".stringsdict", ".resx", ".arb")):
        return
    again = File(data, name, lang="en")
    assert not again.texts and again.join([]) == data


# Lines that an identity echo may change or add
CHANGED = {"a.xlf": "<target|<file |Dein Laden|mid=.0.|alter</i>", "b.xliff": "<target|<segment|<xliff ", "c.tmx": '"MT!"|</tuv>|<seg>Morgen|<seg>Es hagelt', "d.ts": "<TS |<translation|<numerusform",
           "strings.xml": "tools:locale|&#169;|©", "Localizable.strings": "nur_so", "a.stringsdict": None, "a.xcstrings": '"|[{}]|^\r?$', "a.po": '^(msgstr|"|#,)|#, fuzzy',
           "b.pot": '^(msgstr|"|#,)', "a.resx": None, "a.arb": "@@locale|wer|zeile"}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", ["bytes", "lines", "mark", "utf-16"])
def test_all_else_keeps_its_bytes(name, change):
    text = FILES[name].replace("\n", "\r\n") if change == "lines" else FILES[name]
    codec = {"mark": "utf-8-sig", "utf-16": "utf-16"}.get(change, "utf-8")
    if codec == "utf-16":
        text = text.replace('encoding="UTF-8"', 'encoding="UTF-16"').replace('encoding="utf-8"', 'encoding="utf-16"')
    data, _ = through(text.encode(codec), name)
    out = data.decode(codec)
    assert data[:2] in (text.encode(codec)[:2], b"ms") and ("\r\n" in out) == (change == "lines")
    lines = [*difflib.unified_diff(text.split("\n"), out.split("\n"), n=0, lineterm="")][2:]
    for line in lines:
        assert line.startswith("@@ ") or (CHANGED[name] and re.search(CHANGED[name], line[1:])), line
    if name == "a.xcstrings":  # an object without members gets some, and a comma follows the last of others
        assert [one for one in lines if one[0] == "-" and one.strip("-, \r") not in ("", "}", '"value" : "neu"', '"state" : "new"', '"state" : "new",')] == []


def test_an_echo_of_windows_line_ends_and_old_encodings():
    po = FILES["a.po"].replace("UTF-8", "ISO-8859-1").replace("ß", "ss").encode("latin-1")
    data, file = through(po, "a.po")
    assert "Öffnen".encode("latin-1") in data and file.counts["failed"] == 0
    data, file = through(po, "a.po", echo=lambda one: one + " Ω")
    assert file.counts == {"translated": 0, "left": 2, "failed": 4} and "ISO-8859-1 has not all letters" in file.left[-1]
    strings = FILES["Localizable.strings"].encode("utf-16-be")
    data, _ = through(b"\xfe\xff" + strings, "a.strings")
    assert data.startswith(b"\xfe\xff") and "Guten Abend, %1$@" in data.decode("utf-16")
    xml = FILES["a.resx"].replace("utf-8", "iso-8859-1").encode("latin-1")
    data, _ = through(xml, "a.resx", echo=lambda one: one + " Ω")
    assert b" &#937;" in data and "Gruß".encode("latin-1") in data


# ---- where translations go

def test_xliff_1():
    out = targets("a.xlf", echo=shout)
    assert '<file source-language=\'de\' datatype="plaintext" original="Laden.html" target-language="en">' in out
    state = 'state="needs-review-translation" state-qualifier="leveraged-mt"'
    assert f'</source>\n        <target {state}>DIE <g id="1">RECHNUNG</g> LIEGT<x id="2"/> BEREIT &amp; WARTET.</target>\n        <note>' in out
    assert '<target state=\'needs-review-translation\' state-qualifier="leveraged-mt">ER KOMMT <bpt id="1" rid="7">&lt;b&gt;</bpt>HEUTE<ept id="2" rid="7">&lt;/b&gt;</ept> AN.</target>' in out
    assert '<target state="needs-review-translation" xml:lang="en" state-qualifier="leveraged-mt">DER PREIS.</target>' in out
    assert '<target state="signed-off">Done.</target>' in out and "<target>Ready!</target>" in out
    assert '<trans-unit id="5" approved="yes"><source>Gut.</source></trans-unit>' in out
    assert "<source>Mein Laden</source></trans-unit>" in out and f"<source>Dein Laden</source><target {state}>DEIN LADEN</target>" in out
    assert "<source>Gesperrt</source><target></target>" in out and '<target state="new">Sure</target>' in out
    assert f'</seg-source><target {state}><mrk mtype="seg" mid="0">NUR <mrk mtype="protected">Kaufhaus Meyer</mrk> HAT OFFEN.</mrk> <mrk mtype="seg" mid="1">KOMM BALD.</mrk></target>' in out
    assert f"<target {state}><![CDATA[EIN <i>ALTER</i> BAUM & EIN %s.]]></target>" in out
    assert "<source>12 %</source></trans-unit>" in out


def test_xliff_2():
    out = targets("b.xliff", "en-GB", shout)
    assert 'srcLang="de-DE" trgLang="en-GB">' in out
    assert '<segment id="s1" state="translated">' in out and '</source>\n    <target>EIN <pc id="1">SCHNELLER</pc> WEG NACH <ph id="2"/>.</target>\n' in out
    assert '<segment id="s2" state="translated"><source>' in out and '<target>NOCH <sc id="3"/>EIN<ec startRef="3"/> SATZ.</target>' in out
    assert '<segment id="s3" state="final">' in out and '<segment id="s4"><source>' in out and "<segment><source>Geheim</source></segment>" in out
    assert '<target>VON <mrk id="m1" translate="no">Anna Bauer</mrk> GEMALT.</target>' in out
    with pytest.raises(FileError, match="b.xliff: the language of the translation is not known, which XLIFF 2 needs; give lang"):
        File(FILES["b.xliff"].encode(), "b.xliff")


def test_tmx():
    out = targets("c.tmx", "en-GB", shout)
    assert """</tuv>
      <tuv xml:lang="en-GB" creationid="MT!">
        <seg>MORGEN <bpt i="1">{b}</bpt>REGNET<ept i="1">{/b}</ept> ES<ph x="1">{br}</ph>.</seg>
      </tuv>
      <tuv xml:lang="fr">""" in out
    assert '<seg>It snows.</seg>' in out and '<tuv xml:lang="en-US"><seg>ES HAGELT.</seg></tuv>' in out and 'SYSTEM "tmx14.dtd">' in out


def test_qt():
    out = targets("d.ts", "en_GB", shout)
    assert '<TS version="2.1" sourcelanguage="de_DE" language="en_GB">' in out
    assert '<translation type="unfinished">&amp;DATEI &apos;%1&apos; IN %L2 ÖFFNEN</translation>' in out
    assert '<translation type="unfinished">\n            <numerusform>%n SEITE(N) DRUCKEN</numerusform>\n            <numerusform>%n SEITE(N) DRUCKEN</numerusform>\n        </translation>' in out
    assert "<translation>Close</translation>" in out and '"vanished">Old<' in out and '"unfinished">Proposal<' in out
    one_line = '<TS><context><message numerus="yes"><source>%n Lied</source><translation type="unfinished"/></message></context></TS>'
    assert "<translation type=\"unfinished\"><numerusform>%n Lied</numerusform><numerusform>%n Lied</numerusform></translation>" in through(one_line, "a.ts")[0].decode()
    assert targets("d.ts", "pl").count("<numerusform>%n") == 3 and targets("d.ts", "ja").count("<numerusform>%n") == 1


def test_android():
    out = targets("strings.xml", "pl", shout)
    assert '<string name="app" translatable="false">Kaufladen</string>' in out and ">@string/app<" in out and 'tools:locale="pl"' in out
    assert "<string name=\"a\">GEHT\\'S DIR GUT,\\n<xliff:g id=\"name\" example=\"Anna\">%1$s</xliff:g>?</string>" in out
    assert "\"EIN  SATZ MIT 'ZEICHEN' \\\"HIER\\\"\"" in out
    assert "<![CDATA[EIN <b>DICKER</b> TEXT & MEHR %d%%]]>" in out and "EIN &lt;b&gt;DICKER&lt;/b&gt; TEXT © <b>HIER</b>" in out
    assert "<item>MONTAG</item><item>DIENSTAG</item>" in out and 'name="e">EIN DING<' in out and "<item>1</item>" in out
    assert """<item quantity="other">%d LIEDER GEFUNDEN</item>
        <item quantity="few">%d LIEDER GEFUNDEN</item>
        <item quantity="many">%d LIEDER GEFUNDEN</item>
    </plurals>""" in out


def test_apple():
    out = targets("Localizable.strings", echo=shout)
    assert out.startswith('/* Gruß "x" = "y"; */\n"hello" = "GUTEN ABEND, %1$@!\\nWIE GEHT ES DIR?";\n// noch einer\n')
    assert 'nur_so = "ER SAGT \\"NEIN\\" ZU %lld%% Ü";   "leer" = "";\n"kurz";\n' in out
    out = targets("a.stringsdict", "pl", shout)
    assert "<string>ES GIBT %#@n@ IM KORB</string>" in out and "<string>NSStringPluralRuleType</string>" in out and "<string>d</string>" in out
    assert "<key>few</key>\n            <string>%d LIEDER</string>" in out and out.count("%d LIEDER") == 3
    with pytest.raises(FileError, match="a.strings: strings as a property list"):
        File(b'<?xml version="1.0"?><plist/>', "a.strings")


def test_xcode():
    found = json.loads(targets("a.xcstrings", "pl", shout))["strings"]
    unit = {"state": "needs_review", "value": "GUTEN TAG"}
    assert found["Guten Tag"] == {"localizations": {"pl": {"stringUnit": unit}}} and "localizations" not in found["name"]
    assert found["begruessung"]["localizations"]["pl"]["stringUnit"]["value"] == 'HALLO %@, HIER IST "%@".'
    assert list(found["begruessung"]["localizations"]) == ["de", "fr", "pl"]
    forms = found["lieder"]["localizations"]["pl"]["variations"]["plural"]
    assert {form: one["stringUnit"]["value"] for form, one in forms.items()} == {
        "one": "%lld LIED", "few": "%lld LIEDER", "many": "%lld LIEDER", "other": "%lld LIEDER"}
    out = targets("a.xcstrings", echo=shout)
    found = json.loads(out)["strings"]
    assert found["fertig"]["localizations"]["en"]["stringUnit"]["value"] == "Done" and found["neu"]["localizations"]["en"]["stringUnit"]["value"] == "NEU"
    assert list(found["begruessung"]["localizations"]) == ["de", "en", "fr"]
    lines = [re.sub(r'"en"|"fr"', "", one) for one in out.split("\n")]  # as Xcode writes them
    assert '    "Guten Tag" : {\n      "localizations" : {\n        "en" : {\n          "stringUnit" : {\n' in out and len(lines) > 60
    with pytest.raises(FileError, match="which xcstrings needs; give lang"):
        File(FILES["a.xcstrings"].encode(), "a.xcstrings")


def test_gettext():
    out = targets("a.po", "pl_PL", shout)
    assert '"Language: pl_PL\\n"\n"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : ' in out
    assert '#. Hinweis\n#: a.c:3\n#, fuzzy, c-format\nmsgid "Die Datei %s hat %d Zeilen."\nmsgstr "DIE DATEI %s HAT %d ZEILEN."\n' in out
    assert '#, fuzzy\nmsgctxt "menu"\nmsgid "_Öffnen"\nmsgstr "_ÖFFNEN"\n' in out
    assert '#, fuzzy\n#| msgid "alt"\nmsgid ""\n' in out
    assert 'msgstr ""\n"EIN LANGER SATZ, DER ÜBER DIE ZEILE GEHT.\\n"\n"EINE ZWEITE ZEILE MIT %(name)s, {n} UND \\"ZEICHEN\\".\\n"\n' in out
    assert '#, fuzzy\nmsgid "Schon da"\nmsgstr "Already here"\n\nmsgid "Fertig"\nmsgstr "Done"\n' in out
    assert 'msgstr[0] "EIN LIED"\nmsgstr[1] "%(n)d LIEDER"\nmsgstr[2] "%(n)d LIEDER"\n\n#~ msgid "weg"\n#~ msgstr ""\n' in out
    out = targets("b.pot", "ru", shout)  # a form for 1 and 21 needs the number
    assert out.startswith('msgid ""\nmsgstr ""\n') and "charset=UTF-8" in out and "nplurals=3; plural=(n%10==1" in out
    assert out.count("%d BOOTE") == 4 - 1 + 0 and "EIN BOOT" not in out


def test_dotnet_and_flutter():
    out = targets("a.resx", echo=shout)
    assert "<value>HALLO {0}, DU HAST {1:N0} LIEDER &amp; MEHR.</value>" in out and "<value>Kaufladen</value>" in out and "<value>RUF Meyer AN</value>" in out
    assert "<value>etwas</value>" in out and "<value>AAEC</value>" in out and "<value>2.0</value>" in out and "<comment>Gruß</comment>" in out
    out = targets("a.arb", "en-GB", shout)
    found = json.loads(out)
    assert found["@@locale"] == "en_GB" and found["@gruss"]["description"] == "Ein Gruß" and found["gruss"] == "HALLO {name}, ES IST 5 UHR!"
    assert found["lieder"] == "{n, plural, =0{KEIN LIED} one{EIN LIED} other{{n} LIEDER MIT # STROPHEN}}"
    assert found["wer"] == "{g, select, female{SIE KOMMT UM {t, date, ::jm} AN.} other{ER KOMMT UM {t, date, ::jm} AN.}}"
    assert found["zeile"] == 'EINS.\nZWEI Ä "DREI".'


# ---- second readers

# what the toolkit calls its reader, and a text that it finds
TOOLKIT = {"a.xlf": ("xliff", "xlifffile", "DER PREIS."), "b.xliff": ("xliff2", "Xliff2File", "GEMALT."), "c.tmx": ("tmx", "tmxfile", "ES HAGELT."),
           "d.ts": ("ts2", "tsfile", "ÖFFNEN"), "strings.xml": ("aresource", "AndroidResourceFile", "%d LIEDER"), "a.resx": ("resx", "RESXFile", "RUF Meyer AN"),
           "a.po": ("pypo", "pofile", "DIE DATEI %s"), "b.pot": ("pypo", "pofile", "%d BOOTE"),
           "Localizable.strings": ("properties", "stringsutf8file", "%lld%% Ü"), "a.stringsdict": ("stringsdict", "StringsDictFile", "%d LIEDER"),
           "a.arb": ("jsonl10n", "ARBJsonFile", "{n} LIEDER")}  # it does not read xcstrings


@pytest.mark.parametrize("name", TOOLKIT)
def test_translate_toolkit_reads_the_result(name):
    pytest.importorskip("translate.storage.factory")
    module, kind, expected = TOOLKIT[name]
    kind = getattr(importlib.import_module(f"translate.storage.{module}"), kind)
    data = through(FILES[name], name, "en", shout)[0]
    store = kind.parsestring(data)
    texts = " ".join(str(each) for one in store.units if one.target for each in getattr(one.target, "strings", [one.target]))
    texts += " ".join(one.value for one in store.units if name == "Localizable.strings")
    assert expected in texts
    if name.endswith(".xlf"):
        by_id = {one.getid().rpartition("\x04")[2]: one for one in store.units}
        assert by_id["3"].target == "DER PREIS." and by_id["3"].source == "Der Preis." and by_id["4"].target == "Done." and not by_id["6"].target
    if name.endswith(".po"):
        assert {one.source for one in store.units if one.isfuzzy() and not one.isheader()} == {
            "Die Datei %s hat %d Zeilen.", "_Öffnen", "Schon da", "Ein Lied", str(store.units[3].source)}


def test_polib_and_msgfmt_read_the_result(tmp_path):
    polib = pytest.importorskip("polib")
    for lang in ("en", "ja", "pl", "ru", "sl", "ar", "ga", "cy", "lv", "lt", "ro", "mt", "fr", "pt_BR", "cs", "gd", "is"):
        out = targets("a.po", lang, shout)
        made = polib.pofile(out)
        entry = next(one for one in made if one.msgid_plural)
        assert len(entry.msgstr_plural) == plural_rule(lang)[0] and made.metadata["Language"] == lang
        path = tmp_path / "a.po"
        path.write_text(out, encoding="utf-8")
        try:
            done = subprocess.run(["msgfmt", "--check-format", "--check-header", "--use-fuzzy", "-o", os.devnull, str(path)], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            continue
        assert "fatal" not in done.stderr and done.returncode == 0, (lang, done.stderr)


# ---- placeholders

STYLE = Style()
KEPT = ["%s", "%1$s", "%d", "%5.2f", "%-10s", "%@", "%1$@", "%lld", "%%", "%(name)s", "%(n)d", "%{x}", "{0}", "{name}", "{{x}}", "{0:N2}", "${x}", "$name", "%1", "%L2",
        "%n", "%#@n@", "{}", "%I64u", "%zu", "{{ user.name }}", "%name%", "%<PRId64>", "%-5<PRIuMAX>", "%<name>s"]


@pytest.mark.parametrize("one", KEPT)
def test_placeholders_are_codes(one):
    message = Message([Piece("words", f"Der Hund {one} schläft.")], STYLE)
    assert [token.text for token in message.tokens if token.kind == "code"] == [one]
    assert message.back(message.html.upper().replace("<PH ID", "<ph id").replace("</PH>", "</ph>")) == f"DER HUND {one} SCHLÄFT."
    with pytest.raises(Refused, match=re.escape(f"lost a placeholder: {one}")):
        message.back(TAG.sub("", message.html))
    with pytest.raises(Refused, match="a placeholder twice"):
        message.back(message.html * 2)


@pytest.mark.parametrize("text", ["50 % der Leute", "100%ige Sache", "Das ist 5% mehr als 3", "A & B", "Uhr: 5", "3 < 4 und 5 > 2", "Ja -- nein"])
def test_plain_words_are_no_codes(text):
    message = Message([Piece("words", text)], STYLE)
    assert [token.kind for token in message.tokens] == ["words"] and message.back(message.html) == text


@pytest.mark.parametrize("source, made, why", [
    ("Guten Tag", "Good day %s", "%s"), ("Guten Tag", "Good {name}", "{"), ("%d Hunde", '<ph id="0"></ph> dogs, 5% of', "%"), ("Guten Tag", "", "no words"),
    ("Eins.\nZwei.", "One. Two.", "lost a placeholder"), ("Eins.", "One.<br/>", "more lines")])
def test_what_is_made_up_is_refused(source, made, why):
    with pytest.raises(Refused, match=re.escape(why)):
        Message([Piece("words", source)], STYLE).back(made)


@pytest.mark.parametrize("text, back", [("&Öffnen", "&ÖFFNEN"), ("Ö&ffnen", "&ÖFFNEN"), ("_Öffnen", "_ÖFFNEN"), ("Ö_ffnen …", "_ÖFFNEN …"), ("job_spec", "job_spec"),
                                        ("Die Datei fts_read fehlt", "DIE DATEI fts_read FEHLT"), ("Tom & Anna", "TOM & ANNA"), ("a && b", "A && B"),
                                        ("%(a_b)s da", "%(a_b)s DA"), ("&Tom & Anna", "&TOM & ANNA")])
def test_the_letter_of_a_menu(text, back):
    message = Message([Piece("words", text)], Style(signs="&_"))
    assert message.back(Document(message.html, "html").join([shout(one) for one in Document(message.html, "html").sentences])) == back


def test_order_of_placeholders_without_numbers():
    def swapped(style, one="%s", two="%d"):
        message = Message([Piece("words", f"Der {one} mit {two} Hunden")], style)
        return message.back('With <ph id="3"></ph> dogs the <ph id="1"></ph>')
    assert swapped(Style(numbered=True)) == "With %2$d dogs the %1$s"
    assert swapped(Style(numbered=True), "%5.1f", "%@") == "With %2$@ dogs the %1$5.1f" and swapped(STYLE, "%1$s", "%2$s") == "With %2$s dogs the %1$s"
    assert swapped(STYLE, "{a}", "{b}") == "With {b} dogs the {a}" and swapped(Style(numbered=True), "%%", "%d") == "With %d dogs the %%"
    for style, one, two in ((STYLE, "%s", "%d"), (STYLE, "{}", "{}"), (Style(numbered=True), "%*d", "%s")):
        with pytest.raises(Refused, match="without numbers in another order"):
            swapped(style, one, two)


@pytest.mark.parametrize("name", FILES)
def test_lost_placeholders_are_counted_and_named(name):
    """A translation without its tags is not written."""
    file = File(FILES[name].encode(), name, lang="en")
    tagged = sum(1 for unit in file._pairs.units if any(TAG.search(one.html) for one in unit.messages()))
    out = file.join([TAG.sub("", text).replace("e", "E") for text in file.texts], "en").decode()
    assert file.counts["failed"] == tagged and (tagged or name in ("b.pot",))
    failed = [one for one in file.left if "lost a placeholder" in one]
    assert len(failed) == min(tagged, 10)
    for name, line in (("1", "trans-unit '1': the translation lost a placeholder: <g id=\"1\">"),) if name == "a.xlf" else ():
        assert line in failed and '<trans-unit id="1" xml:space="preserve">\n        <source>' in out and "<target" not in out.partition("<note>")[0]


def test_codes_of_all_kinds_in_xliff():
    """Prefixes of names, comments, texts over several lines, plural forms in brackets, and segments of Trados."""
    data = '''<x:xliff version="1.2" xmlns:x="u"><x:file source-language="de" target-language="en-US"><x:body>
<x:trans-unit id="1"><x:source>Hallo <!-- k --> Welt<x:ph id="1">&lt;br/&gt;</x:ph> hier.</x:source></x:trans-unit>
<x:trans-unit id="2"><x:source>{V, plural, =1 {<x:x id="I"/> Tag} other {Tage}}</x:source></x:trans-unit>
<x:trans-unit id="3"><x:source>Du hast {V, plural, =1 {ein Lied} other {viele Lieder}}.</x:source></x:trans-unit>
<x:trans-unit id="4"><x:source>
  Ein Satz
  über zwei Zeilen.
</x:source></x:trans-unit>
<x:trans-unit id="5"><x:source>Eins.</x:source><x:seg-source><x:g id="5"><x:mrk mtype="seg" mid="1">Eins.</x:mrk></x:g></x:seg-source><x:target><x:g id="5"><x:mrk mtype="seg" mid="1"/></x:g></x:target></x:trans-unit>
<x:trans-unit id="6"><x:source>Zu.</x:source><s:seg-defs><s:seg id="3" locked="true"/></s:seg-defs></x:trans-unit>
</x:body></x:file></x:xliff>'''
    out, file = through(data, "a.sdlxliff", "en-GB", shout)
    out = re.sub(r' state="needs-review-translation" state-qualifier="leveraged-mt"', "", out.decode())
    assert "<x:target>HALLO <!-- k --> WELT<x:ph id=\"1\">&lt;br/&gt;</x:ph> HIER.</x:target>" in out and 'target-language="en-US"' in out
    assert "<x:target>{V, plural, =1 {DU HAST EIN LIED.} other {DU HAST VIELE LIEDER.}}</x:target>" in out
    assert "<x:target>\n  EIN SATZ\n  ÜBER ZWEI ZEILEN.\n</x:target>" in out
    assert '<x:target><x:g id="5"><x:mrk mtype="seg" mid="1">EINS.</x:mrk></x:g></x:target>' in out and "<x:source>Zu.</x:source><s:seg-defs>" in out
    assert file.left == ["trans-unit '2': plural forms in brackets with codes inside, which are not read", "a unit that is not to be translated"]


def test_a_sentence_that_is_too_long_leaves_its_unit():
    file = File(FILES["a.po"].encode(), "a.po", lang="en")
    assert file.fail(1)
    out = file.join(file.texts).decode()
    assert file.counts["failed"] == 1 and 'msgid "_Öffnen"\nmsgstr   ""\n' in out and "line 13, msgid '_Öffnen': a sentence that is too long" in "\n".join(file.left)


def test_random_texts_come_back(seed=SEED):
    """An identity echo gives each text back, whatever placeholders and codes it has."""
    print("SEED", seed)
    rng = random.Random(seed)
    words = ["Haus", "der", "Hund", "geht.", "Ja!", "und", "größer", "5", "%", "&", "<b>", "</b>", "<i>", "</i>", "<br>", "&amp;", "&nbsp;", "\n", "  ", "'", '"', "_", "(", "{", "}", "\\", *KEPT]
    for _ in range(3000):
        text = "".join(rng.choice(words) + rng.choice(("", " ", " ")) for _ in range(rng.randint(1, 12)))
        message = Message([Piece("words", text)], Style(signs="&_"))
        document = Document(message.html, "html")
        back = message.back(document.join([one for one in document.sentences]))
        def plain(words):  # the sign of a menu's letter may move, and entities are written where HTML needs them
            return re.sub(r"[\s&_\u00a0]+", "", html.unescape(html.unescape(words)) if message.is_html else words)
        assert plain(back) == plain(text), (text, message.html)


# ---- plural forms, languages

def test_plural_rules():
    for lang in "ar be bg bs ca cs cy da de el en es et fa fi fr ga gd he hi hr hu id is it ja ko lt lv mk ms mt nb nl pl pt ro ru sk sl sr sv th tr uk vi zh".split():
        n, rule = plural_rule(lang)
        forms = forms_of(n, rule)
        assert len(forms) == n and all(one or other for one, other in forms) and sum(one for one, _ in forms) == 1, lang
        assert categories(lang)[-1] == "other" and 1 <= qt_forms(lang) <= 6
    assert [categories(one) for one in ("pl", "ja", "ar-EG", "pt_BR", "eng_Latn")] == [
        ["one", "few", "many", "other"], ["other"], ["zero", "one", "two", "few", "many", "other"], ["one", "many", "other"], ["one", "other"]]
    assert [code_of(*one) for one in (("en_gb", "-"), ("zh-hant", "_"), ("eng_Latn", "-"), ("x y", "-"))] == ["en-GB", "zh_Hant", "en", ""]
    for rule in ("n!=1; import os", "__import__('os')", "n" * 2000, "(" * 500 + "n" + ")" * 500, "n/0"):
        with pytest.raises(ValueError):
            forms_of(2, rule)


@pytest.mark.parametrize("name, lang, message", [
    ("a.xlf", "fr", None), ("a.xlf", "de", "the source is in de, and so would be the translation"), ("c.tmx", "de", "the source is in de-DE"),
    ("d.ts", "de", "the source is in de_DE"), ("a.arb", "de-DE", "the source is in de"), ("a.xcstrings", "de", "the source is in de")])
def test_wrong_languages_are_refused(name, lang, message):
    if message is None:
        return through(FILES[name].replace("source-language", 'target-language="en" x'), name, "en") and refused(
            FILES[name].replace("source-language", 'target-language="en" source-language'), name, "translations into en, and the new ones would be in fr", lang)
    refused(FILES[name], name, message, lang)


# ---- hostile files

def refused(data, name, message, lang="en"):
    with pytest.raises(FileError, match=re.escape(name) + ".*" + message) as caught:
        File(data.encode() if isinstance(data, str) else data, name, lang=lang)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


BOMB = "<!DOCTYPE a [<!ENTITY a 'aaaaaaaaaa'>" + "".join(f"<!ENTITY {'abcdefghij'[i + 1]} '{('&' + 'abcdefghij'[i] + ';') * 10}'>" for i in range(9)) + "]>"


@pytest.mark.parametrize("name, root", [("a.xlf", "xliff"), ("a.tmx", "tmx"), ("a.ts", "TS"), ("strings.xml", "resources"), ("a.resx", "root"), ("a.stringsdict", "plist")])
def test_hostile_xml(name, root):
    refused(f"{BOMB}<{root}>&j;</{root}>", name, "declares entities")
    refused(f'<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]><{root}>&a;</{root}>', name, "declares entities")
    refused(f"<{root}>" + "<a>" * 5000, name, "more than 200 elements inside each other")
    refused(f"<{root}><a></{root}>", name, "not XML that can be read: mismatched tag")
    refused("<other/>", name, "the first element is <other>, but ")
    refused(f'<!DOCTYPE a SYSTEM "a.dtd"><{root}>&nbsp;</{root}>', name, "the entity &nbsp; is not known")
    refused(b"\xff\xfe<\0", name, "")


@pytest.mark.parametrize("name, data, message", [
    ("a.po", 'msgid "a\nmsgstr ""', "line 1: neither a comment nor a string"), ("a.po", 'msgid "a"\nmsgid "b"\nmsgstr ""\n', "line 2: a second msgid"),
    ("a.po", "Guten Tag\n", "line 1"), ("a.po", 'msgid ""\nmsgstr "Plural-Forms: nplurals=99; plural=n;\\n"\n', "has 99 forms"),
    ("a.po", 'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=n***n;\\n"\n', "Plural-Forms"),
    ("a.arb", "{", "not JSON"), ("a.arb", "[1]", "not an object"), ("a.arb", "[" * 100000, "not JSON"), ("a.arb", '{"a":' * 60 + "1" + "}" * 60, "more than 50"),
    ("a.xcstrings", "{\"a\": \"b\"", "not JSON"), ("a.strings", '"a" = "b" ? ;', "line 1: '.' is not expected"), ("a.strings", '"a" = "b', "not expected"),
    ("a.ts", "export const x = 1;", "not XML")])
def test_damaged_files(name, data, message):
    refused(data, name, message)


def test_icu_that_cannot_be_read_is_named():
    file = File(json.dumps({"a": "{n, plural, one{x} other{y}", "b": "{n, plural, }", "c": "{n, plural, other{" * 30 + "a" + "}}" * 30,
                            "d": "Du " + "{n, plural, one{ein} other{viele}} " * 9, "e": "Gut."}).encode(), "a.arb", lang="en")
    file.join(file.texts)
    assert file.counts == {"translated": 1, "left": 0, "failed": 4} and all(one[:8] == f"string '{'abcd'[i]}'"[:8] for i, one in enumerate(file.left))


# ---- time and memory in proportion

def unit12(i, inside="Haus", more=""):
    return f'<trans-unit id="{i}"><source>{inside}</source>{more}</trans-unit>'


def xliff(body, attributes=""):
    return f'<xliff version="1.2"{attributes}><file source-language="de"><body>{body}</body></file></xliff>'


ROWS = {
    "xlf: units": ("a.xlf", lambda n: xliff("".join(map(unit12, range(n))))),
    "xlf: units and notes": ("a.xlf", lambda n: xliff("".join(unit12(i, more="<note>a</note>" * n) for i in range(n // 10 + 1)))),
    "xlf: codes": ("a.xlf", lambda n: xliff(unit12(1, '<x id="1"/> Haus ' * n))),
    "xlf: codes around words": ("a.xlf", lambda n: xliff(unit12(1, '<g id="1">Haus </g> ' * n))),
    "xlf: codes that begin": ("a.xlf", lambda n: xliff(unit12(1, "".join(f'<bx id="{i}"/>Haus ' for i in range(n))))),
    "xlf: codes that cross": ("a.xlf", lambda n: xliff(unit12(1, "".join(f'<bx id="{i + 1}"/>Haus <ex id="{i}"/>' for i in range(n))))),
    "xlf: segments": ("a.xlf", lambda n: xliff("<trans-unit><source>a</source><seg-source>" + '<mrk mtype="seg">Haus</mrk> ' * n + "</seg-source></trans-unit>")),
    "xlf: attributes": ("a.xlf", lambda n: xliff(unit12(1), "".join(f' a{i}="b"' for i in range(n)))),
    "xlf: attributes of units": ("a.xlf", lambda n: xliff(unit12(1) * n, "".join(f' a:b{i}="b"' for i in range(n)))),
    "xliff: segments and attributes": ("b.xliff", lambda n: '<xliff version="2.0" srcLang="de"><file><unit' + "".join(f' a:b{i}="b"' for i in range(n)) + ">" + "<segment><source>Haus</source></segment>" * n + "</unit></file></xliff>"),
    "xliff: notes and units": ("b.xliff", lambda n: '<xliff version="2.0" srcLang="de"><file>' + ("<unit><notes>" + "<note>a</note>" * 5 + "</notes><segment><source>Haus</source></segment></unit>") * n + "</file></xliff>"),
    "tmx: variants": ("a.tmx", lambda n: '<tmx><header srclang="de"/><body><tu>' + '<tuv xml:lang="fr"><seg>Haus</seg></tuv>' * n + '<tuv xml:lang="de"><seg>Haus</seg></tuv></tu></body></tmx>'),
    "tmx: units": ("a.tmx", lambda n: '<tmx><header srclang="de"/><body>' + '<tu><prop>a</prop><tuv xml:lang="de"><seg>Haus</seg></tuv></tu>' * n + "</body></tmx>"),
    "ts: messages": ("a.ts", lambda n: "<TS><context><name>A</name>" + '<message><source>Haus</source><translation type="unfinished"/></message>' * n + "</context></TS>"),
    "ts: forms": ("a.ts", lambda n: '<TS><context><message numerus="yes"><source>%n Haus</source><translation type="unfinished">' + "<numerusform/>" * n + "</translation></message></context></TS>"),
    "xml: strings": ("strings.xml", lambda n: "<resources>" + '<string name="a">Haus \\n %s</string>' * n + "</resources>"),
    "xml: items": ("strings.xml", lambda n: "<resources><plurals>" + "".join(f'<item quantity="{i}">Haus</item>' for i in range(n)) + '<item quantity="other">Haus</item></plurals></resources>'),
    "xml: escapes": ("strings.xml", lambda n: "<resources><string>" + "\\'Haus\\u0041\\n\"" * n + "</string></resources>"),
    "xml: references": ("strings.xml", lambda n: "<resources><string>@" + "a" * n + "</string><string>" + "@a/" * n + "</string></resources>"),
    "resx: data": ("a.resx", lambda n: "<root>" + "<data name='a'><value>Haus {0}</value><comment>b</comment></data>" * n + "</root>"),
    "resx: locked words": ("a.resx", lambda n: "<root><data name='a'><value>" + "Haus " * n + '</value><comment>{Locked="' + '","'.join(f"Haus{i}" for i in range(n)) + '"}</comment></data></root>'),
    "stringsdict: dicts": ("a.stringsdict", lambda n: "<plist><dict>" + "<key>a</key><dict><key>one</key><string>Haus</string><key>other</key><string>Haus</string></dict>" * n + "</dict></plist>"),
    "strings": ("a.strings", lambda n: '/* a */ "a" = "Haus \\n %@";\n' * n),
    "strings: a comment without an end": ("a.strings", lambda n: '"a" = "Haus";\n' + "/* " + "* / " * n + "*/"),
    "po: entries": ("a.po", lambda n: '#: a\nmsgid "Haus %d"\nmsgstr ""\n\n' * n),
    "po: plural forms": ("a.po", lambda n: 'msgid ""\nmsgstr "Plural-Forms: nplurals=10; plural=n%10;\\n"\n\n' + 'msgid "Haus"\nmsgid_plural "%d Haus"\nmsgstr[0] ""\n\n' * n),
    "po: lines": ("a.po", lambda n: 'msgid ""\n' + '"Haus \\n"\n' * n + 'msgstr ""\n'),
    "po: flags": ("a.po", lambda n: "#, a\n" * n + 'msgid "Haus"\nmsgstr ""\n'),
    "po: header": ("a.po", lambda n: 'msgid ""\nmsgstr ""\n' + '"Haus: a\\n"\n' * n),
    "arb: strings": ("a.arb", lambda n: json.dumps({f"a{i}": "Haus {x}" for i in range(n)})),
    "arb: forms": ("a.arb", lambda n: json.dumps({"a": "{n, plural, " + "".join(f"={i}{{Haus}} " for i in range(n)) + "other{Haus}}"})),
    "arb: words around forms": ("a.arb", lambda n: json.dumps({"a": "Haus " * n + "{n, plural, " + "".join(f"={i}{{Haus}} " for i in range(n)) + "other{Haus}}"})),
    "arb: forms beside each other": ("a.arb", lambda n: json.dumps({"a": "{n, plural, other{Haus}} " * n})),
    "arb: brackets": ("a.arb", lambda n: json.dumps({"a": "{n, plural, other{" + "{" * n, "b": "'{" * n + "{n, plural, other{a}}", "c": "{" * n})),
    "xcstrings: strings": ("a.xcstrings", lambda n: json.dumps({"sourceLanguage": "de", "strings": {f"Haus {i}": {} for i in range(n)}})),
    "xcstrings: languages": ("a.xcstrings", lambda n: json.dumps({"sourceLanguage": "de", "strings": {"Haus": {"localizations": {f"a{i}": {} for i in range(n)}}}})),
    "xcstrings: forms": ("a.xcstrings", lambda n: json.dumps({"sourceLanguage": "de", "strings": {f"a{i}": {"localizations": {"de": {"variations": {"plural": {"one": {"stringUnit": {"value": "Haus"}}, "other": {"stringUnit": {"value": "Haus"}}}}}}} for i in range(n)}})),
    **{f"a text of {part!r}": ("a.po", lambda n, part=part: 'msgid "Haus ' + part * n + '"\nmsgstr ""\n') for part in (
        "%s ", "{0} ", "{", "{{", "<b>", "<b>a</b>", "</b>", "<b ", "&amp;", "&", "_", "%0", "%", "$", "${", "%(", "'", "\\n", "\\\\", "--a ", "[[", "%#@", "<", " ", "&#1", "{a,", "%1$")},
}
# two of them at once: as many of the one as of the other
ROWS["xlf: units and codes"] = ("a.xlf", lambda n: xliff(ROWS["xlf: codes"][1](n) and "".join(unit12(i, '<x id="1"/>Haus %s') for i in range(n)) + unit12("b", '<bx id="1"/>Haus ' * n)))
ROWS["po: entries and plural forms"] = ("a.po", lambda n: ROWS["po: plural forms"][1](n) + ROWS["po: entries"][1](n) + ROWS["po: flags"][1](n))
ROWS["xml: strings and items"] = ("strings.xml", lambda n: ROWS["xml: strings"][1](n)[:-12] + ROWS["xml: items"][1](n)[11:])


def work(name, data):
    """The opcodes that Python executes for a file, and the bytes of the result."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        made = through(data, name, "pl", shout)[0]
    except FileError:
        made = b""
    finally:
        sys.settrace(before)
    return count + len(made)


@pytest.mark.sliced
@pytest.mark.parametrize("row", ROWS)
def test_work_is_in_proportion(row):
    name, make = ROWS[row]
    if row in ("xlf: units and notes",):  # n times n of them are in the file
        def make(n, of=make):
            return of(int((10 * n) ** 0.5))
    few = 80 if row == "arb: words around forms" else 20  # more than the limit
    work(name, make(few))
    for _ in range(2):  # once more: re may have compiled a pattern again, because it keeps 512
        one, two, four = (work(name, make(n)) for n in (few, 2 * few, 4 * few))
        if four - two <= 2.2 * (two - one) + 1500:
            return
    raise AssertionError((row, one, two, four))


LARGE = """if True:
    import resource, sys, time
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (10 ** 9, 10 ** 9))
        resource.setrlimit(resource.RLIMIT_CPU, (120, 120))  # a row without end ends here
    except (OSError, ValueError):
        pass
    from test_pairs import FileError, ROWS, shout, through
    began = time.process_time()
    sum(i * i for i in range(1000000))
    most = max(5, 150 * (time.process_time() - began))
    row = sys.argv[1]
    name, make = ROWS[row]
    data = make(700 if row == "xlf: units and notes" else 5000)
    began = time.process_time()
    try:
        through(data, name, "pl", shout)
    except FileError as e:
        assert "more than" in str(e), (row, e)
    spent = time.process_time() - began
    assert spent < most, (row, spent, most)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of processes")
@pytest.mark.sliced
@pytest.mark.parametrize("row", ROWS)
def test_many_of_each_end_soon(row):
    done = subprocess.run([sys.executable, "-c", LARGE, row], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])})
    assert done.returncode == 0, done.stderr[-3000:]


# ---- the model, the command line

@pytest.fixture(scope="module")
def german():
    with Model(GERMAN) as model:
        yield model


def test_with_the_model(german, tmp_path):
    path, out = tmp_path / "a.xlf", tmp_path / "b.xlf"
    path.write_text(xliff(unit12("a", "Der Hund schläft im <g id='1'>Garten</g>.") + unit12("b", "Die Katze trinkt.", "<target>The cat.</target>")), encoding="utf-8")
    assert translate_file(german, path, out, lang="en") == ["a unit that has a translation"]
    made = out.read_text(encoding="utf-8")
    assert 'target-language="en"' in made and re.search(r"<target state=\"needs-review-translation\"[^>]*>The dog[^<]*<g id='1'>[^<]*garden[^<]*</g>\.</target>", made), made
    alone = german.translate("Die Katze trinkt Milch.")
    path = tmp_path / "Localizable.strings"
    path.write_text('"a" = "Die Katze trinkt Milch.";\n', encoding="utf-16")
    translate_file(german, path, path, lang="en")
    assert path.read_text(encoding="utf-16") == f'"a" = "{alone}";\n'
    long = " ".join(["Haus"] * 3000)
    path = tmp_path / "a.po"
    path.write_text(f'msgid "{long}"\nmsgstr ""\n\nmsgid "Die Katze trinkt Milch."\nmsgstr ""\n', encoding="utf-8")
    left = translate_file(german, path, path, lang="en", max_source=100)
    assert len(left) == 1 and re.match("line 1, msgid '[^']*': a sentence that is too long", left[0])
    assert f'msgid "{long}"\nmsgstr ""\n' in path.read_text(encoding="utf-8") and f'msgstr "{alone}"' in path.read_text(encoding="utf-8")


def test_the_command(tmp_path):
    path, out = tmp_path / "strings.xml", tmp_path / "out.xml"
    path.write_text('<resources>\n<string name="a">Guten Tag.</string>\n<string name="b" translatable="false">Kaufladen</string>\n</resources>\n', encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "transformer_h", str(GERMAN), str(path), "-o", str(out), "--lang", "en"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"{path}: units translated: 1, left alone: 1, without a translation that can be used: 0\n" in done.stderr, done.stderr
    assert "left as it is: a unit that is not to be translated\n" in done.stderr
    assert re.search('<string name="a">(?!Guten)[^<]+</string>\n<string name="b" translatable="false">Kaufladen<', out.read_text(encoding="utf-8"))


def test_each_format_has_a_file_here_and_a_row_in_the_readme():
    text = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
    same_readers = {".mxliff", ".sdlxliff", ".mqxliff", ".resw"}
    assert {Path(name).suffix for name in FILES} == set(PAIRS) - same_readers
    assert all(f"`{suffix}`" in text for suffix in PAIRS)
