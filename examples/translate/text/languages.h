/* languages.h: whether a sentence is already in the language of the model's translations.

       static languages_table table;
       languages_look look;
       languages_begin(&table);
       if (languages_suspects(&look, &table, language, source, n_source, translation, n, score,
                              tokens, penalty))
           ... let the model score the source as its own translation
           if (languages_stays(&look, copy_score)) ... keep the source

   A source in Latin letters stays in any case if the language of the model's sources has a script
   of its own, as Chinese and Russian have. Otherwise it is suspected if its frequent words are of
   the language of its translation. Then the model decides: it finds a text of its target language
   more likely than what it makes of it.
   Scores are sums of log-probabilities; those that are compared are divided by the characters of
   their texts. languages_is_unknown is about sources that the model cannot read at all. */
#ifndef LANGUAGES_H
#define LANGUAGES_H

#include "protect.h"
#include <math.h>

/* Frequent words, which say the language of a sentence. */
static const struct languages_words {
    const char *code, *words;
} languages_frequent[] = {
    {"en", "a about all always an and any are as at be been but by can can't did do don't for from"
           " get got had has have he he's her here him his how i i'm i've if in into is isn't it"
           " it's its just know let's like many me much my never no not now of on one only or other"
           " our out over she she's so some than that that's the their them then there they this"
           " time to tom's too up very was we were what when where which who why will with would"
           " you you're you've your"},
    {"de", "aber als an auch auf aus bei bin bis das dass dein dem den der des dich die dir du"
           " durch ein eine einem einen einer er es für habe haben hat hatte ich ihm ihn ihr im in"
           " ist ja kann kein keine man mehr mein meine mich mir mit muss nach nein nicht noch nur"
           " oder schon sein sich sie sind so um und uns von vor war warum was wenn wer werden wie"
           " will wir wo wurde zu zum zur über"},
    {"fr", "ai as au avec c'est ce cette d'un dans de des du elle en est et il ils je la le les"
           " leur ma mais mon ne nous ou où par pas plus pour que qui sa se ses son sont sur tout"
           " tu un une vous était été être"},
    {"es", "al como con de desde donde el ella en es esta este está fue hasta hay la las le lo los"
           " me mi muy más ni no nos o para pero por porque que quien se sin sobre son su sus sí"
           " también todo tu un una y ya yo él"},
    {"it", "al alla anche che ci come con da dei del della delle di e era gli ha ho il in io la le"
           " lei lo lui ma mi nel nella noi non per più questa questo si sono sua suo ti tu un una"
           " è"},
    {"pt", "a ao as até com como da das de do dos e ela ele em está eu foi há isso já mais mas"
           " muito na no nos não o os ou para pela pelo por quando que se ser seu sua só também um"
           " uma você é"},
    {"nl", "aan als ben bij dan dat de deze die dit door een en er geen haar heb heeft hem het hij"
           " hoe ik in is je kan maar men met mijn naar niet of om ook op over te tot uit van voor"
           " was wat wij ze zich zij zo zou"},
    {"sv", "att av de den det du då en ett för hade han hans har henne honom i icke inte jag med"
           " men mig nu och om på sig sin som så till vad var är"},
    {"pl", "ale być był co czy dla do i ja jak jego jest już my na nie o od on ona po przez się są"
           " ta tak te ten to ty tym w wy z za że"},
    {"tr", "ama bana ben bir bu da daha de değil gibi ile için kadar mi ne o olarak onu sen var ve"
           " yok çok"},
    {"da", "af at de den der det dig du efter en er et for fra ham han har havde hende hun hvad i"
           " ikke jeg kan med men mig nu og om på skal skulle som så til var vi vil være"},
    {"nb", "at av de deg den der det du en er et etter for fra hadde ham han har henne hun hva i"
           " ikke jeg kan med meg men nå og om på skal som så til var vi vil være"},
    {"fi", "ei että he hän ja joka jos kuin kun me minä mitä mutta niin nyt ole olen oli on ovat"
           " se sen sinä tai te tämä vain"},
    {"cs", "a ale by byl co do i jak jako je jeho jen jsem jsou k když má mě na ne nebo není o od"
           " po pro s se si tak to už v ve však z za že"},
    {"hu", "a az azt csak de egy el ez ezt ha hogy is ki meg mi mint már még nagyon nem te vagy"
           " van volt én és"},
    {"ro", "a am au ca care ce cu că dar de din ea el este fost la lui mai nu o pe pentru se sunt"
           " să un în și"},
    {"ru", "а бы был было в вы для его есть же за и из к как меня мы на не но о он она от по с так"
           " то ты у что это я"},
    {"uk", "а але би був було в ви вона від він для до з за його мене ми на не про та так ти то у"
           " це що я як є і"},
    {"el", "ένα από αυτό για δεν είναι η θα και με μια μου να ο που σε στην στο τα την της τι το"
           " τον του"},
    {"id", "ada akan dalam dan dari dengan di dia ini itu juga kami kamu karena ke mereka pada"
           " saya sudah tidak untuk yang"},
};

enum {
    LANGUAGES_N = sizeof languages_frequent / sizeof *languages_frequent,
    LANGUAGES_SLOTS = 4096,
    LANGUAGES_WORD = 24 /* bytes of the longest word */
};

/* The frequent words by their hashes: a word and the languages that have it, as bits. */
typedef struct languages_table {
    uint64_t words[LANGUAGES_SLOTS];
    uint32_t has[LANGUAGES_SLOTS];
} languages_table;

/* What a sentence says about its language. */
typedef struct languages_counts {
    int32_t words[LANGUAGES_N]; /* frequent words of each language */
    size_t characters, all;     /* all words, also others */
    int is_wide;                /* it has letters of a script without spaces */
    int is_special;             /* it has letters with accents and the like */
} languages_counts;

/* Returns the slot of a word in small letters. */
static size_t languages_slot(const languages_table *t, const char *word, size_t size,
                             uint64_t *hash) {
    size_t i, slot;
    *hash = 14695981039346656037u;
    for (i = 0; i < size; i++) *hash = (*hash ^ (unsigned char)word[i]) * 1099511628211u;
    for (slot = *hash % LANGUAGES_SLOTS; t->words[slot] && t->words[slot] != *hash;)
        slot = (slot + 1) % LANGUAGES_SLOTS;
    return slot;
}

/* Fills the table. */
static inline void languages_begin(languages_table *t) {
    size_t i, n;
    uint64_t hash;
    memset(t, 0, sizeof *t);
    for (i = 0; i < LANGUAGES_N; i++) {
        const char *word = languages_frequent[i].words;
        for (; *word; word += n + (word[n] == ' ')) {
            size_t slot;
            n = strcspn(word, " ");
            slot = languages_slot(t, word, n, &hash);
            t->words[slot] = hash, t->has[slot] |= (uint32_t)1 << i;
        }
    }
}

/* Counts the frequent words of each language in a text. */
static void languages_count(const languages_table *t, const char *text, size_t size,
                            languages_counts *counts) {
    char word[LANGUAGES_WORD + 8];
    size_t i, k, n, length = 0;
    uint64_t hash;
    uint32_t c = 0;
    memset(counts, 0, sizeof *counts);
    for (i = 0; i <= size; i += n) {
        n = i < size ? tfm_character_next(text + i, size - i, &c) : 1;
        if (i == size) c = ' ';
        else counts->characters++;
        counts->is_wide |= character_is_wide(c);
        counts->is_special |= c >= 0xC0 && c < 0x250;
        if (c == 0x2019) c = '\'';
        if (character_case(c) || (c == '\'' && length)) {
            c = protect_lower(c);
            if (length > LANGUAGES_WORD) continue;
            if (c < 0x80) word[length++] = (char)c;
            else if (c < 0x800)
                word[length++] = (char)(0xC0 | c >> 6), word[length++] = (char)(0x80 | (c & 0x3F));
            else length = LANGUAGES_WORD + 1; /* no word of the lists has it */
            continue;
        }
        while (length && word[length - 1] == '\'') length--;
        counts->all += length > 0;
        if (length && length <= LANGUAGES_WORD) {
            const size_t slot = languages_slot(t, word, length, &hash);
            for (k = 0; t->has[slot] && k < LANGUAGES_N; k++)
                counts->words[k] += (t->has[slot] >> k & 1) != 0;
        }
        length = 0;
    }
}

/* Returns whether a text has letters, and all of them are Latin, although the language is written
   in another script. language: its code, or NULL. */
static inline int languages_is_latin(const char *language, const char *text, size_t size) {
    static const char others[] = " am ar be bg bn el fa gu he hi hy ja ka km kn ko lo mk ml mr my"
                                 " ne pa ps ru si ta te th uk ur yi zh ara bel bul ell heb hin jpn"
                                 " kor rus tha ukr zho ";
    size_t i, n;
    uint32_t c;
    int has_letters = 0;
    if (!language || !characters_list_has(others, language, strcspn(language, "-_"))) return 0;
    for (i = 0; i < size; i += n) {
        n = tfm_character_next(text + i, size - i, &c);
        if (c < 0x250 || (c >= 0x1E00 && c < 0x1F00)) has_letters |= character_case(c) != 0;
        else if (!(c >= 0x2000 && c < 0x2E00) && !(c >= 0x3000 && c < 0x3040) && c < 0x1F000 &&
                 !(c >= 0xFE00 && c < 0xFE10))
            return 0; /* neither punctuation nor a picture */
    }
    return has_letters;
}

/* Returns how much a source looks as if it were of the language of its translation, of which
   score is the score: 0 not at all, 1 it may be, 2 its frequent words are of that language, 3
   clearly so. characters [2] gets those of the source and of the translation. */
static inline int languages_suspect(const languages_table *t, const char *source, size_t n_source,
                                    const char *text, size_t n, double score, size_t *characters) {
    languages_counts from, to;
    int32_t most = 0;
    size_t i, language = LANGUAGES_N;
    int is_sure = 1, is_tied = 0;
    languages_count(t, source, n_source, &from), languages_count(t, text, n, &to);
    characters[0] = from.characters, characters[1] = to.characters;
    if (!n || from.is_wide != to.is_wide || from.all < 2) return 0; /* "No." is of many languages */
    for (i = 0; i < LANGUAGES_N; i++)
        if (to.words[i] &&
            (language == LANGUAGES_N || to.words[i] > to.words[language] ||
             (to.words[i] == to.words[language] && from.words[i] > from.words[language])))
            language = i;
    if (language == LANGUAGES_N) { /* the translation has no frequent word */
        if (score > -0.12 * (double)to.characters) return 0;
        for (language = 0, i = 1; i < LANGUAGES_N; i++)
            if (from.words[i] > from.words[language]) language = i;
        is_sure = score < -0.4 * (double)to.characters; /* noise */
    }
    /* If the translation has as many words of another language ("was" is English and German), they
       do not say which of the two it is. */
    for (i = 0; i < LANGUAGES_N; i++)
        is_tied |= i != language && to.words[i] && to.words[i] == to.words[language] &&
                   from.words[i] < from.words[language];
    for (i = 0; i < LANGUAGES_N; i++)
        if (i != language && from.words[i] > most) most = from.words[i];
    if (from.words[language] < most || (from.words[language] == most && from.is_special)) return 0;
    is_tied &= score > -0.25 * (double)to.characters; /* noise has words of the source */
    return !from.words[language] || is_tied             ? 1
           : is_sure && from.words[language] > most + 1 ? 3
                                                        : 2;
}

/* What a translation says about the language of its source. */
typedef struct languages_look {
    int level;         /* languages_suspect; 0: no suspicion; 4: certain by its script */
    double score;      /* of the translation, for each of its characters */
    double characters; /* of the source */
} languages_look;

/* Looks at a source and its translation, text [n], whose score is that of tokens tokens with their
   end, divided by tokens^penalty as length penalties are. language: of the model's sources, or
   NULL. Returns look->level. */
static inline int languages_suspects(languages_look *look, const languages_table *t,
                                     const char *language, const char *source, size_t n_source,
                                     const char *text, size_t n, double score, int32_t tokens,
                                     double penalty) {
    size_t characters[2];
    if (penalty != 0 && tokens) score *= pow(tokens, penalty);
    look->level = languages_suspect(t, source, n_source, text, n, score, characters);
    look->characters = (double)(characters[0] + !characters[0]);
    look->score = score / (double)(characters[1] + !characters[1]);
    if (languages_is_latin(language, source, n_source)) look->level = 4;
    return look->level;
}

/* Returns whether a suspected source stays as it is; copy is its score as its own translation. A
   translation with a low score is often noise, as a model makes of a language that it does not
   know. */
static inline int languages_stays(const languages_look *look, double copy) {
    const int level = look->level;
    const double least = level > 2 || (level > 1 && look->score < -0.4) ? -1.9
                         : level > 1                                    ? -1.2
                                                                        : -0.8;
    if (level > 3) return 1;
    return level && copy / look->characters - look->score > least;
}

/* Returns whether the tokens that the model does not know are most of a source, as those of a text
   in another script are: its translation would be noise. spans [n] are the tokens' bytes. */
static inline int languages_is_unknown(const int32_t *ids, const tfm_span *spans, int32_t n,
                                       int32_t unknown, size_t size) {
    size_t lost = 0;
    int32_t i;
    for (i = 0; i < n; i++)
        if (ids[i] == unknown) lost += spans[i].end - spans[i].begin;
    return 2 * lost > size;
}

#endif
