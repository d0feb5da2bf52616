"""Texts as people write them: what stands around sentences and in them, and what only looks like it. \\u writes characters that nobody
sees."""

import re


def lines(text):
    return [re.sub(r"\\u([0-9A-F]{4})", lambda found: chr(int(found[1], 16)), line) for line in text.split("\n")[1:-1]]


GERMAN = lines(r"""
1. Der Zug hatte zwanzig Minuten Verspätung.
2) Die Katze schläft auf dem Sofa.
a) Wir fahren morgen nach Hause.
(b) Das Wetter ist heute schön.
[1] Er hat das Buch gelesen.
[12] Sie kauft ein Brot.
• Milch und Eier kaufen
- Die Tür ist offen.
– Der Hund bellt laut.
* Ich habe Hunger.
1.2 Die Brücke ist gesperrt.
§ 5 Der Vertrag endet am Freitag.
IV. Der König kehrt zurück.
① Bitte die Schuhe ausziehen.
→ Hier geht es weiter.
[12:30] Der Bus kommt gleich.
[lacht] Das ist nicht wahr.
✓ Die Rechnung ist bezahlt.
☐ Den Arzt anrufen.
# Das Haus am See
   3. Der Junge spielt im Garten.
Der Zug hatte Verspätung.[2] Der Hund schläft.
Das Museum ist geschlossen.(1) Es öffnet im Mai.
Die Stadt ist alt.* Sie liegt am Fluss.
Das Wasser ist kalt.¹ Niemand badet.
Die Zahl steigt.† Der Preis auch.
Wir kommen später. 😀
🎉 Herzlichen Glückwunsch zum Geburtstag!
♪ Der Mond ist aufgegangen ♪
Das ist toll! 👍🏽
(Die Tür schlägt zu.)
(Der Laden ist heute geschlossen).
„Ich komme morgen wieder.“
"Das Essen ist fertig."
»Wir müssen gehen.«
«Das ist mein Freund.»
‚Sie hat recht.‘
[Der Rest fehlt.]
**Das ist wichtig.**
_Bitte leise sein._
(„Das glaube ich nicht.“)
DER HUND SCHLÄFT.
DIE KATZE SITZT AUF DEM DACH UND WARTET.
ACHTUNG, BITTE DIE TÜREN SCHLIESSEN!
DAS HAUS VON HERRN MÜLLER IST ZU VERKAUFEN. BITTE ANRUFEN.
USA
NATO
Der ADAC hilft.
2. Klasse ist billig.
1.2 Millionen Menschen leben hier.
(Nicht) alle kommen.
Achtung: Der Hund beißt.
- 5 Grad in der Nacht
3. Mai
z. B. am Montag
Am 3. Oktober ist Feiertag. Wir haben frei.
Der 1. FC Köln hat gewonnen.
***
---
12345
😀😀😀
3,14
+49 30 123456
...
!?

   
Der Don\u00ADnerstag ist ein lan\u00ADger Tag.
Das Ste\u200Bak ist sehr lang.
Der \u2068Hund\u2069 schläft im Garten.
\u2068Anna\u2069 hat ein neues Auto.
Ich habe \u2068drei\u2069 Bücher gekauft.
Das\u00A0Haus ist groß.
\uFEFFDas Auto ist rot.
The train was twenty minutes late.
I have never seen this man before, and I do not know his name.
The cat is sleeping on the sofa. Der Hund schläft im Garten.
She said that they would come back tomorrow.
What are you doing here?
Was ist das?
This is not the first time that it has happened.
Er sagte: I love you.
今天的天气很好。
Сегодня хорошая погода.
Это книга. Das ist ein Buch.
שלום עולם
مرحبا بالعالم
Das Wort 你好 bedeutet Hallo.
Γειά σου Κόσμε
Das kostet ₿ 5.
Guten Tag. Wie geht es Ihnen?  Ich bin müde.
Guten Tag.
Ich bin Anna und wohne in Berlin
Meine Liste
Sehr geehrte Damen und Herren,
mit freundlichen Grüßen
1. Erstens gehen wir. 2. Zweitens essen wir. 3. Drittens schlafen wir.
• Eins ist gut. • Zwei ist besser.
(1) Der Antrag ist gestellt. (2) Er wird geprüft.
Er fragte: „Kommst du mit?“ Sie nickte.
„Nein“, sagte er. „Heute nicht.“
Das ist (wie gesagt) nicht wahr.
Schreib an anna.muster@example.org, bitte.
Siehe https://www.example.com/a/b?c=d für mehr.
Der Preis beträgt 19,99 € pro Stück.
IBAN: DE89 3704 0044 0532 0130 00
- [ ] Das Fenster putzen
- [x] Die Küche aufräumen
> Er schrieb mir gestern.
Anna: Kommst du?
ANNA: Kommst du heute?
A. Das Haus ist alt.
A. Müller wohnt hier.
1) 2) 3)
1.
a)
( )
(a)
„“
Tom! Tom!! Wo bist du???
Was?! Das kann nicht sein!
Ja. Nein. Doch.
ja nein doch
Nr. 5 ist frei.
Dr. Meier kommt um 8 Uhr.
Das Buch[3] ist gut.
Er kam[1], sah[2] und siegte[3].
Das stimmt [4].
Zitat Ende.“
(Zitat Ende
Der Titel "Faust" ist bekannt.
TITEL: DAS LEBEN DER ANDEREN
Das WLAN ist langsam.
WIR SIND DAS VOLK! Das riefen sie.
ES REGNET. Es regnet.
ß
Ä
ÖL
OK
O.K.
😀 Guten Morgen. 😀 Wie geht's? 😀
Das war alles.	Und das auch.
	Der Absatz ist eingerückt.
  Zwei Leerzeichen am Anfang.
Leerzeichen am Ende.   
Ein Satz ohne Ende, der weiter und weiter geht, weil niemand ihn beendet
""")
# Without an end in sight
LONG = [" ".join(["der Zug fährt durch das Tal, und der Regen fällt,"] * 30), "-" * 4000, "0123456789abcdef" * 200, " ".join(map(str, range(900))),
        "Der Zug hält. " + " ".join(["wir warten"] * 150) + ". Dann geht es weiter. " + "x" * 500 + " ist ein Wort."]
CHINESE = lines(r"""
1. 火车晚点了二十分钟。
（1）他买了一本书。
一、我们明天回家。
• 今天天气很好。
- 门是开着的。
[1] 她在看书。
【2】猫在睡觉。
① 请脱鞋。
第一章
他说：“我明天来。”
“我明天再来。”
「我明天再来。」
《红楼梦》
（门关上了。）
(门关上了。)
今天很冷。[2]我们不出去。
今天很冷。我们不出去。你呢？
我们晚点来。😀
🎉生日快乐！
♪月亮代表我的心♪
The train was twenty minutes late.
I have never seen this man before.
他说 I love you。
***
12345
。
……
Сегодня хорошая погода.
这个词 Привет 是俄语。
一二年级的学生
三个人在等车。
1.2万人住在这里。
- 5度
他的电话是 010-12345678。
请写信给 anna@example.org。
甲：你来吗？
小明：你今天来吗？
1.我们走吧。2.我们吃饭吧。
我\u200B们走吧。
\u2068小明\u2069有一辆新车。
我有\u2068三\u2069本书。
  前面有空格。
后面有空格。  
NATO
USA
这是USA的。
A. 这是一本书。
a)这是一本书。
→ 从这里走。
☐ 打电话给医生
✓ 账单已付。
> 他昨天写信给我。
我的清单
没有句号的句子
因为没有人结束它所以它一直继续下去
你好！你好吗？我很好。
DER HUND SCHLÄFT.
THE DOG IS SLEEPING.
""")
