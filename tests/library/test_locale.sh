# Numbers in a file must mean the same in a locale with a decimal comma. The test makes such a locale itself.
# If it cannot, it uses an installed one, and without one it is skipped.
mkdir -p build/locale
if localedef -i de_DE -f UTF-8 build/locale/de_DE.UTF-8 > build/locale/log 2>&1; then
    LOCPATH=$PWD/build/locale build/test_hostile numbers
else
    build/test_hostile numbers
fi
