# Numbers in a file mean the same where the locale writes them with a comma. Makes such a locale for
# itself; where that cannot be done, one that is installed serves, and without one the test is skipped.
mkdir -p build/locale
if localedef -i de_DE -f UTF-8 build/locale/de_DE.UTF-8 > build/locale/log 2>&1; then
    LOCPATH=$PWD/build/locale build/test_hostile numbers
else
    build/test_hostile numbers
fi
