# Turns an example for the Chinese model into one for the German model.
s,tests/data/models/toy,build/german/f32,
s/zh-en/de-en/
s/我是学生。/Ich bin Student./
s/火车晚了十分钟。/Der Zug kam zehn Minuten zu spät./
s/如果明天下雨，我们就待在家里。/Wenn es morgen regnet, bleiben wir zu Hause./
s/她忘了關窗戶。/Sie vergaß, das Fenster zu schließen./
s/我喜欢学习。/Ich lerne gern./
s/他每天晚上都喝一杯牛奶。/Er trinkt jeden Abend ein Glas Milch./
s/孩子们在公园里玩。/Die Kinder spielen im Park./
s/這本書比那本貴。/Dieses Buch ist teurer als jenes./
s/医生让他多休息。/Der Arzt riet ihm, sich auszuruhen./
