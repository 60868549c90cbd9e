// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

// Written by scripts/make_unicode_tables.py: Unicode as tokenizers 0.22.2 knows it; numbers in base 64 from '#'.

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

// clang-format off
/// Where numbers begin and end (4 each).
inline constexpr std::string_view numeric_borders =
    "###S###]##%U##%W##%\\##%]##%_##%b##<C##<M##>S##>]##B###B-##HI##HS##JI##JS##JW##J]##LI##LS##NI##NS##PI##PS##PU##P[##"
    "RI##RV##TI##TS##T[##Tb##VI##VS##X;##XB##XI##X\\##ZI##ZS##\\3##\\=##^3##^=##_C##_W#$$##$$-#$%3#$%=#$0L#$0`#$>Q#$>T#$BC"
    "#$BM#$BS#$B]#$C3#$C=#$H)#$H3#$J3#$J>#$M##$M-#$M3#$M=#$P3#$P=#$QS#$Q]#$T##$T-#$T3#$T=#%$S#%$T#%$W#%$]#%%##%%-#%(3#%"
    ")&#%)(#%)-#%4C#%5?#%6M#%7##%@Y#%A7#%V`#%Va#&#*#&#+#&#D#&#M#&#[#&#^#&)5#&)9#&+C#&+M#&,+#&,3#&,4#&,C#&-##&--#&-T#&.#"
    "#-;C#-;M#->I#->S#-CS#-CY#-F3#-F=#-G##-G-#-J3#-J=#-JS#-J]#-L3#-L=#-RS#-R]#2_3#2_=#3'*#3'W#3(##3(\\#3)-#3)/#3.D#3._#3"
    "/C#3/G#30$#30%#30-#30.#324#329#35C#35M#3D;#3DC#3D\\#3E##3EJ#3ES#3F^#3G##3G9#3G?#3I_#3Ia#3J##3J3#3J5#3K##3L##3L,#3L`"
    "#3Lb#3M@#3MC#3NN#3NS#3P;#3PC#3P[#3Q##3QL#3QS#3V]#3W##3WS#3W]#3X##3X-#3\\C#3\\b#3_@#3_J#3`4#3`8#3b(#3b/#4$5#4$S#4&S#4"
    "&]#4'Y#4(##4*3#4*=#4*D#4*X#4.S#4.]#443#44=#463#46=#4<3#4<=#4>##4>-#4>3#4>G#4?S#4?_#4FC#4FV#4H3#4H=#4RS#4R]#4T3#4TP"
    "#4X3#4X=#4YC#4YM#4ZC#4ZM#4`3#4`=#4b##4b8#53##54R#9'S#9']#9LC#9LM#9N##9N-#9P3#9P=#9P>#9PE#9XS#9X]#9]##9]:#9bW#9bZ#?"
    "VS#?V]#@.##@.7#@.C#@.W#@0C#@0\\#@B1#@C##A(##A(-#A.S#A.]#A6S#A6]#A:T#A:^#AF*#AF3#AH3#AH=#ATT#AUO#AUP#AUS#AUT#AUX#AW$"
    "#AWQ#AWR#AWa#B'##B'0#BRS#BR]";

/// Where punctuation begins and ends (4 each).
inline constexpr std::string_view punctuation_borders =
    "###D###S###]##$$##$>##$D##$^##$b##%D##%E##%J##%K##%N##%O##%Y##%[##%^##%_##%b##&###0a##0b##1*##1+##8=##8C##9,##9.##"
    "9a##9b##:###:$##:&##:'##:)##:*##:V##:X##;,##;.##;/##;1##;>##;?##;A##;C##<M##<Q##>7##>8##?###?1##BZ##B]##CS##Cb##DA"
    "##DB##HG##HI##HS##HT##NS##NT##ZW##ZX##\\2##\\3##\\=##\\?##_'##_6##_7##_8##_]##_a##a(##a)##b3##b8##b<##b>#$$-#$$3#$&^#$"
    "&_#$0C#$0L#$3##$3$#$<P#$<R#$=>#$=@#$>N#$>Q#$?X#$?Z#$B7#$B:#$B;#$B>#$C##$C.#$H'#$H)#$KA#$KC#$MC#$MJ#$MK#$MQ#$P=#$PD"
    "#$R_#$S##$S^#$T##$Ta#$U##$V##$V+#$V6#$V7#%#3#%#K#%#S#%$'#%$(#%$5#%$6#%$B#%$`#%$b#%%0#%%2#%/+#%//#%/L#%/N#%@K#%@Y#%"
    "B(#%B*#%BI#%BS#%I&#%I<#%J;#%J?#%J_#%Ja#%V\\#%V`#%Va#%W##%XS#%XT#%[##%[R#%[S#%\\&#&#$#&#'#&#+#&#5#&#7#&#C#&#S#&#T#&#`"
    "#&#a#&%C#&%D#&&^#&&_#-6a#-7##-;0#-;3#-<V#-<W#-<a#-<b#->U#->[#-DW#-D[#-F1#-F3#-F[#-F^#-F_#-F`#-GQ#-GS#-HB#-HC#-J$#-"
    "J1#-JA#-JC#-L?#-LC#-NA#-NC#-NS#-NU#-RN#-RO#2Wa#2X##2[3#2[=#2[S#2\\6#2\\7#2\\E#2\\F#2\\G#2\\K#2\\L#2\\M#2\\O#2_$#2_'#2_(#2_."
    "#2_/#2_3#2_=#2_?#2_B#2_D#2_^#2_a#2_b#2`##2`>#2`?#2`@#2`A#2`B#2`I#3'##3'&#31B#31C#323#324#38R#38S#3D:#3D;#3GB#3GC#3"
    "Gb#3H##3L3#3L<#3Lb#3M##3NS#3NZ#3O\\#3P##3Q<#3Q@#4$*#4$1#4%^#4%`#4%a#4&%#4(##4('#4(W#4(Y#4*(#4*-#4*0#4*1#4*>#4*?#4*@"
    "#4*C#4+[#4+a#4-L#4-M#46)#46*#4:$#4:;#4<$#4<'#4?_#4?b#54S#54X#9LQ#9LS#9NX#9NY#9OZ#9O_#9P'#9P(#>UB#>UC#@M*#@M/";

/// Where marks begin and end (4 each).
inline constexpr std::string_view accent_borders =
    "##/###0S##5&##5-##94##9a##9b##:###:$##:&##:'##:)##:*##:+##;3##;>##<.##<C##<S##<T##>9##>@##>B##>H##>J##>L##>M##>Q##"
    "?4##?5##?S##@.##AI##AT##BN##BW##C9##C=##C>##CG##CH##CK##CL##CQ##D<##D?##F7##FE##FF##G'##G]##G`##Ga##H3##H4##H;##HE"
    "##HG##I$##I'##I_##I`##Ia##J(##J*##J,##J.##J1##J:##J;##JE##JG##K$##K'##K_##K`##Ka##L&##L*##L,##L.##L1##L4##L5##LS##"
    "LU##LX##LY##M$##M'##M_##M`##Ma##N)##N*##N-##N.##N1##NE##NG##O$##O'##O_##O`##Oa##P(##P*##P,##P.##P1##P9##P;##PE##PG"
    "##Q%##Q&##Qa##R&##R)##R,##R-##R1##R:##R;##S###S'##Sa##T(##T)##T,##T-##T1##T8##T:##TE##TG##U$##U'##U_##U`##Ua##V(##"
    "V)##V,##V-##V1##V8##V:##VE##VG##W$##W'##Wa##X(##X)##X,##X-##X1##X:##X;##XE##XG##Y%##Y'##Z-##Z.##Z2##Z8##Z9##Z:##Z;"
    "##ZC##ZU##ZW##[T##[U##[W##[^##\\*##\\2##]T##]U##]W##]]##]^##]`##^+##^1##_;##_=##_X##_Y##_Z##_[##_\\##_]##_a##`###`T##"
    "a(##a)##a+##a0##a;##a<##a`##b)##b*#$#N#$#b#$$9#$$=#$$A#$$D#$$E#$$H#$$J#$$Q#$$T#$$X#$%%#$%1#$%2#$%3#$%=#$%A#$0@#$0C"
    "#$?5#$?8#$?U#$?X#$@5#$@7#$@U#$@W#$AW#$B7#$B@#$BA#$C.#$C1#$E(#$E*#$EL#$EM#$GC#$GO#$GS#$G_#$K:#$K?#$L8#$LB#$LC#$L`#$"
    "Lb#$M##$MS#$Mb#$O##$O(#$OW#$P(#$PN#$PW#$Q##$Q&#$QD#$QQ#$RI#$RW#$SG#$S[#$V3#$V6#$V7#$VL#$VP#$VQ#$VU#$VX#$V[#$V]#$Z#"
    "#$ZY#$Z^#$[##%&3#%&T#%VR#%VU#%Xb#%Y##%ZC#%[##&#M#&#S#&%<#&%>#-<R#-<V#-<W#-<a#-=A#-=C#->S#->U#-C%#-C&#-C)#-C*#-C.#-"
    "C/#-CF#-CK#-E##-E%#-EW#-F)#-FC#-FU#-GI#-GQ#-H*#-H7#-I##-I'#-IV#-J$#-JH#-JI#-KL#-KZ#-L&#-L'#-L/#-L1#-L^#-La#-MS#-MT"
    "#-MU#-MX#-MZ#-M\\#-Ma#-N##-N$#-N%#-NN#-NS#-NX#-NZ#-RF#-RN#-RO#-RQ#2OA#2OB#2[##2[3#2[C#2[S#3*`#3*a#3.C#3.D#30Y#30^#3"
    "K$#3K'#3K(#3K*#3K/#3K3#3K[#3K^#3Kb#3L##3NH#3NJ#4###4#&#4#[#4$*#4$b#4%&#4%S#4%^#4'##4'&#4'J#4'X#4(V#4(W#4)##4)&#4)V"
    "#4*$#4*-#4*0#4+O#4+[#4+a#4+b#4.B#4.N#4/##4/'#4/_#4/`#4/a#40(#40*#40,#40.#401#40:#40;#40E#40G#40I#40P#40S#40X#43X#4"
    "4*#45S#46'#49R#49Y#49[#4:$#4:?#4:A#4;S#4<$#4=N#4=[#4?@#4?O#4SR#4SZ#4S[#4T##4U5#4UK#4UL#4UZ#9NS#9NX#9OS#9OZ#9`4#9`b"
    "#9a2#9a6#>U@#>UB#@(H#@(M#@(P#@(V#@(^#@)&#@)(#@)/#@)M#@)Q#@,%#@,(#@K##@KZ#@K^#@LP#@LX#@LY#@M'#@M(#@M>#@MC#@MD#@MS#A"
    "###A#*#A#+#A#<#A#>#A#E#A#F#A#H#A#I#A#N#AF3#AF:#AH'#AH.&C'#&C*S";

/// Where marks of BERT begin and end (4 each).
inline constexpr std::string_view bert_accent_borders =
    "##/###0S##5&##5+##94##9a##9b##:###:$##:&##:'##:)##:*##:+##;3##;>##<.##<C##<S##<T##>9##>@##>B##>H##>J##>L##>M##>Q##"
    "?4##?5##?S##@.##AI##AT##BN##BW##C9##C=##C>##CG##CH##CK##CL##CQ##D<##D?##FF##G&##G]##G^##G_##G`##H$##H,##H0##H1##H4"
    "##H;##HE##HG##I$##I%##I_##I`##J$##J(##J0##J1##JE##JG##K$##K&##K_##K`##L$##L&##L*##L,##L.##L1##L4##L5##LS##LU##LX##"
    "LY##M$##M&##M_##M`##N$##N)##N*##N,##N0##N1##NE##NG##O$##O%##O_##O`##Ob##P###P$##P(##P0##P1##P9##P:##PE##PG##Q%##Q&"
    "##R###R$##R0##R1##S###S$##Sa##T$##T)##T,##T-##T1##T8##T:##TE##TG##U$##U%##U_##U`##Ub##V###V)##V*##V/##V1##VE##VG##"
    "W$##W%##X$##X(##X0##X1##XE##XG##Z-##Z.##Z5##Z8##Z9##Z:##[T##[U##[W##[^##\\*##\\2##]T##]U##]W##]]##]^##]`##^+##^1##_;"
    "##_=##_X##_Y##_Z##_[##_\\##_]##`T##`b##a###a(##a)##a+##a0##a;##a<##a`##b)##b*#$#P#$#T#$#U#$#[#$#\\#$#^#$#`#$#b#$$;#$"
    "$=#$$A#$$D#$$T#$$X#$%%#$%&#$%(#$%*#$%0#$%1#$%@#$%A#$0@#$0C#$?5#$?8#$?U#$?X#$@5#$@7#$@U#$@W#$AW#$AY#$AZ#$Aa#$B)#$B*"
    "#$B,#$B7#$B@#$BA#$C.#$C1#$EL#$EM#$GC#$GF#$GJ#$GL#$GU#$GV#$G\\#$G_#$K:#$K<#$K>#$K?#$L9#$L:#$L;#$LB#$LC#$LD#$LE#$LF#$"
    "LH#$LP#$LV#$L`#$Lb#$M##$MS#$Ma#$O##$O'#$OW#$OX#$OY#$O^#$O_#$O`#$P%#$P&#$PN#$PW#$Q##$Q%#$QE#$QI#$QK#$QM#$QN#$QQ#$RI"
    "#$RJ#$RK#$RM#$RP#$RQ#$RR#$RU#$SO#$SW#$SY#$S[#$V3#$V6#$V7#$VD#$VE#$VL#$VP#$VQ#$VW#$VX#$V[#$V]#$Z##$ZY#$Z_#$[##%&3#%"
    "&@#%&D#%&E#%&H#%&T#%VR#%VU#%Xb#%Y##%ZC#%[##&#M#&#Q#&%<#&%>#-<R#-<S#-<W#-<a#-=A#-=C#->S#->U#-C%#-C&#-C)#-C*#-C.#-C/"
    "#-CH#-CJ#-F'#-F(#-FC#-FU#-GI#-GQ#-H*#-H5#-I##-I&#-IV#-IW#-IY#-I]#-I_#-I`#-JH#-JI#-KL#-KR#-KT#-KV#-KX#-KZ#-L&#-L'#-"
    "L/#-L0#-L_#-L`#-MS#-MT#-MU#-MX#-MZ#-M\\#-Ma#-N##-N$#-N%#-NO#-NQ#-NY#-NZ#-RH#-RI#-RK#-RL#-RP#-RQ#2OA#2OB#2[##2[3#2[C"
    "#2[S#3*`#3*a#3.C#3.D#30Y#30^#3K$#3K'#3K(#3K*#3K/#3K3#3K[#3K^#3Kb#3L##3NH#3NJ#4#$#4#%#4#[#4$*#4$b#4%%#4%V#4%Z#4%\\#4"
    "%^#4'##4'&#4'J#4'O#4'P#4'X#4(V#4(W#4)##4)%#4)Y#4)b#4*-#4*0#4+R#4+U#4+W#4+X#4+Y#4+[#4.B#4.C#4.F#4.N#4/##4/%#4/_#4/`"
    "#40##40$#40I#40P#40S#40X#45V#45\\#45]#45^#45b#46$#46%#46'#49U#49Y#49_#49a#49b#4:$#4:?#4:A#4;V#4;^#4;`#4;a#4;b#4<$#4"
    "=N#4=O#4=P#4=Q#4=S#4=Y#4=Z#4=[#4?@#4?C#4?E#4?I#4?J#4?O#9NS#9NX#9OS#9OZ#9a2#9a6#>U@#>UB#@(J#@(M#@(^#@)&#@)(#@)/#@)M"
    "#@)Q#@,%#@,(#@K##@KZ#@K^#@LP#@LX#@LY#@M'#@M(#@M>#@MC#@MD#@MS#AF3#AF:&C'#&C*S";

/// Where control characters of BERT begin and end (4 each).
inline constexpr std::string_view bert_control_borders =
    "#######,###.###0###1###C##$b##%C##%P##%Q##;###;)##;?##;@##>@##>A##?2##?3#$C1#$C2#%#.#%#3#%#M#%#R#%$C#%$H#%$I#%$S#1"
    "###2G##2^b#2_##2b\\#2b_#2b`#2ba#4%`#4%a#>UC#>UG#@(V#@(^&C#$&C#%&C#C&C%#&S##&bba'###'2ba";
// clang-format on

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
