"""Sentences of ten languages with their English translations, written for these tests, and their decorated forms.

Decoration changes characters that no reader sees: invisible characters, kinds of white space, and the order and
composition of marks. It must change neither tokens nor translations.
"""

import itertools
import unicodedata

PAIRS = {
    "ar": [
        ("أين تقع المكتبة؟", "Where is the library?"),
        ("وصل سامي إلى القاهرة في الساعة ٧:٣٠ صباحًا.", "Sami arrived in Cairo at 7:30 in the morning."),
        ("اشتريتُ خبزًا، وجبنًا، وثلاث تفاحات.", "I bought bread, cheese and three apples."),
        ("المُعَلِّمَة قالت: «لا تنسَ مفتاحك!»", "The teacher said, “Don’t forget your key!”"),
        ("السعر ١٬٢٥٠٫٥٠ جنيهًا؛ هذا غالٍ جدًّا.", "The price is 1,250.50 pounds; that is very expensive."),
    ],
    "he": [
        ("איפה תחנת הרכבת?", "Where is the railway station?"),
        ("דָּנָה גרה בתל־אביב משנת 2015.", "Dana has lived in Tel Aviv since 2015."),
        ("ד״ר לוי עובד באו״ם, לא בצה״ל.", "Dr. Levi works at the UN, not in the army."),
        ("הקפה עולה 12.50 ₪ בלבד!", "The coffee costs only 12.50 shekels!"),
        ('ג׳ורג׳ שאל: "מתי נאכל?"', 'George asked: "When do we eat?"'),
    ],
    "hi": [
        ("तुम्हारा नाम क्या है?", "What is your name?"),
        ("मेरी बहन दिल्ली में रहती है।", "My sister lives in Delhi."),
        ("उसने २५० रुपये में तीन किताबें ख़रीदीं।", "She bought three books for 250 rupees."),
        ("राम, सीता और मोहन कल आएँगे।", "Ram, Sita and Mohan will come tomorrow."),
        ("वाह! कितना सुंदर पक्षी है!", "Wow! What a beautiful bird!"),
    ],
    "th": [
        ("ห้องน้ำอยู่ที่ไหน", "Where is the bathroom?"),
        ("สมชายตื่นนอนตอน ๖ โมงเช้าทุกวัน", "Somchai gets up at 6 every morning."),
        ("ราคา 1,200 บาท แพงไปหน่อย", "It costs 1,200 baht, which is a bit expensive."),
        ("คุณครูผู้ใหญ่ใจดีมาก!", "The head teacher is very kind!"),
        ("เด็กๆ ชอบกินมะม่วง", "Children like to eat mangoes."),
    ],
    "zh": [
        ("你叫什么名字？", "What are you called?"),
        ("我妹妹住在北京，她今年12岁。", "My little sister lives in Beijing and is 12 years old."),
        ("王老师说：“请坐！”大家都坐下了。", "Mr. Wang said, “Please sit down!”, and everybody sat down."),
        ("我买了《红楼梦》、《论语》和一本词典。", "I bought Dream of the Red Chamber, the Analects and a dictionary."),
        ("卡尔·马克思（1818年生）是德国人。", "Karl Marx (born in 1818) was German."),
    ],
    "ja": [
        ("駅はどこですか。", "Where is the train station?"),
        ("田中さんは毎朝6時半に起きます。", "Mr. Tanaka gets up at half past six."),
        ("「ありがとう！」と彼女は言った。", "“Thank you!” she said."),
        ("人々は花火を見るために、川へ行きました。", "People went to the river to see the fireworks."),
        ("ガラスのコップでジュースをもう一杯いかがですか？", "Would you like another juice in a glass?"),
    ],
    "ko": [
        ("화장실이 어디에 있습니까?", "Where can I find the toilet?"),
        ("민수는 서울에서 3년 동안 살았다.", "Minsu lived in Seoul for 3 years."),
        ("시장에서 사과, 배, 포도를 샀어요.", "I bought apples, pears and grapes at the market."),
        ("“열쇠를 잊지 마세요!”", "“Do not forget the key!”"),
        ("비가 많이 와서, 집에 있었다.", "It rained a lot, so I stayed at home."),
    ],
    "vi": [
        ("Bạn tên là gì?", "What do they call you?"),
        ("Anh Nguyễn Văn Hùng đến Hà Nội lúc 7 giờ sáng.", "Nguyễn Văn Hùng came to Hà Nội at 7 a.m."),
        ("Tôi mua bánh mì, phở và ba quả táo.", "I bought a baguette, noodle soup and three apples."),
        ("Đừng quên chìa khóa nhé!", "Remember your key, will you!"),
        ("Giá 50.000 đồng, đắt quá.", "It costs 50,000 dong; too expensive."),
    ],
    "tr": [
        ("Adın ne?", "May I ask your name?"),
        ("Işık'ın ablası İstanbul'da oturuyor.", "Işık's elder sister lives in Istanbul."),
        ("Ekmek, peynir ve üç elma aldım.", "I got bread, cheese and three apples."),
        ("Film saat 19:30'da başlıyor; geç kalma!", "The film starts at 19:30; don't be late!"),
        ("DİKKAT: ISPARTA YOLU KAPALI.", "ATTENTION: THE ROAD TO ISPARTA IS CLOSED."),
    ],
    "de": [
        ("Wie heißt du?", "So what's your name?"),
        ("Die Straße ist 3,5 Kilometer lang.", "The street is 3.5 kilometres long."),
        ("„Guten Morgen!“, sagte Frau Groß.", '"Good morning!" said Ms. Groß.'),
        ("Am 3. Oktober 2024 war die Bücherei geschlossen.", "On October 3, 2024 the public library was closed."),
        ("ACHTUNG, GROẞE BAUSTELLE!", "CAUTION, LARGE CONSTRUCTION SITE!"),
    ],
}
PAIRS["vi"] = [(unicodedata.normalize("NFD", source), target) for source, target in PAIRS["vi"]]

INVISIBLE = "\u200b\u00ad\u2060\u200e\ufeff\u0001\u200f\x7f\u202a\u2066"
SPACES = ("\u00a0", "\u3000", " \t", "\u2009", "\u202f \u2028", "\x85")


def decorated(sentence: str) -> str:
    """Returns ``sentence`` with invisible characters, other white space, and the marks of letters in another order."""
    invisible, spaces = itertools.cycle(INVISIBLE), itertools.cycle(SPACES)
    letters: list[str] = []
    for character in unicodedata.normalize("NFD", sentence):
        if letters and unicodedata.combining(character):
            letters[-1] += character
        else:
            letters.append(next(spaces) if character == " " else character)
    text = "".join(
        letter[0] + next(invisible) + "".join(sorted(letter[1:], key=unicodedata.combining, reverse=True))
        for letter in letters
    )
    return f"\ufeff\u3000{text}\u200b "
