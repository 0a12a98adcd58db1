; where objects have headers of 16 bytes and the little end comes first
; ModuleID = "runtime"

define ptr @"call"(ptr %".1", ptr %".2", i64 %".3")
{
entry:
  %".5" = getelementptr inbounds i8, ptr %".1", i64 16
  %".6" = load ptr, ptr %".5"
  %".7" = getelementptr inbounds ptr, ptr %".6", i64 3
  %".8" = load ptr, ptr %".7"
  %".9" = getelementptr inbounds i64, ptr %".8", i64 0
  %".10" = load i64, ptr %".9"
  %".11" = getelementptr inbounds i64, ptr %".8", i64 1
  %".12" = load i64, ptr %".11"
  %".13" = getelementptr inbounds i64, ptr %".8", i64 3
  %".14" = load i64, ptr %".13"
  %".15" = alloca i64
  %".16" = alloca i64, i32 64
  %".17" = alloca i64, i32 4
  %".18" = alloca i64
  %".19" = icmp eq i64 %".3", %".10"
  %".237" = alloca i64
  br i1 %".19", label %"proceed", label %"explain"
explain:
  %".346" = getelementptr inbounds ptr, ptr %".6", i64 4
  %".347" = load ptr, ptr %".346"
  %".348" = call ptr @"PyObject_Vectorcall"(ptr %".347", ptr %".2", i64 %".3", ptr null)
  ret ptr %".348"
proceed:
  %".21" = add i64 %".10", %".12"
  %".22" = alloca ptr, i64 %".21"
  %".23" = alloca ptr, i64 %".12"
  %".24" = getelementptr inbounds i64, ptr %".8", i64 2
  %".25" = load i64, ptr %".24"
  %".26" = add i64 %".25", 1
  %".27" = alloca i64, i64 %".26"
  %".28" = getelementptr inbounds i64, ptr %".6", i64 9
  %".29" = load i64, ptr %".28"
  %".30" = mul i64 %".14", 2
  %".31" = add i64 %".30", 4
  store i64 %".31", ptr %".15"
  br label %"i.head"
i.head:
  %"i" = phi  i64 [0, %"proceed"], [%".87", %"proceed.2"]
  %".34" = icmp slt i64 %"i", %".10"
  br i1 %".34", label %"i.body", label %"i.done"
i.body:
  %".36" = getelementptr inbounds ptr, ptr %".2", i64 %"i"
  %".37" = load ptr, ptr %".36"
  %".38" = getelementptr inbounds i8, ptr %".37", i64 8
  %".39" = load i64, ptr %".38"
  %".40" = icmp eq i64 %".39", %".29"
  br i1 %".40", label %"proceed.1", label %"explain"
i.done:
  store i64 4, ptr %".15"
  br label %"i.head.1"
proceed.1:
  %".42" = getelementptr inbounds i8, ptr %".37", i64 56
  %".43" = load ptr, ptr %".42"
  %".44" = getelementptr inbounds i8, ptr %".43", i64 28
  %".45" = load i32, ptr %".44"
  %".46" = sext i32 %".45" to i64
  %".47" = load i64, ptr %".15"
  %".48" = add i64 %".47", 1
  store i64 %".48", ptr %".15"
  %".50" = getelementptr inbounds i64, ptr %".8", i64 %".47"
  %".51" = load i64, ptr %".50"
  %".52" = icmp eq i64 %".46", %".51"
  %".53" = load i64, ptr %".15"
  %".54" = add i64 %".53", 1
  store i64 %".54", ptr %".15"
  %".56" = getelementptr inbounds i64, ptr %".8", i64 %".53"
  %".57" = load i64, ptr %".56"
  %".58" = icmp eq i64 %".46", %".57"
  %".59" = or i1 %".52", %".58"
  %".60" = getelementptr inbounds i8, ptr %".43", i64 26
  %".61" = load i8, ptr %".60"
  %".62" = icmp ne i8 %".61", 62
  %".63" = and i1 %".59", %".62"
  %".64" = load i64, ptr %".15"
  %".65" = add i64 %".64", 1
  store i64 %".65", ptr %".15"
  %".67" = getelementptr inbounds i64, ptr %".8", i64 %".64"
  %".68" = load i64, ptr %".67"
  %".69" = getelementptr inbounds i8, ptr %".37", i64 24
  %".70" = load i32, ptr %".69"
  %".71" = sext i32 %".70" to i64
  %".72" = icmp eq i64 %".71", %".68"
  %".73" = and i1 %".63", %".72"
  %".74" = getelementptr inbounds i8, ptr %".37", i64 64
  %".75" = load i32, ptr %".74"
  %".76" = and i32 %".75", 257
  %".77" = icmp eq i32 %".76", 257
  %".78" = and i1 %".73", %".77"
  br i1 %".78", label %"proceed.2", label %"explain"
proceed.2:
  %".80" = getelementptr inbounds i8, ptr %".37", i64 16
  %".81" = load ptr, ptr %".80"
  %".82" = getelementptr inbounds ptr, ptr %".22", i64 %"i"
  store ptr %".81", ptr %".82"
  %".84" = load i64, ptr %".15"
  %".85" = add i64 %".84", %".68"
  store i64 %".85", ptr %".15"
  %".87" = add nsw i64 %"i", 1
  br label %"i.head"
i.head.1:
  %"i.1" = phi  i64 [0, %"i.done"], [%".111", %"i.body.1"]
  %".91" = icmp slt i64 %"i.1", %".14"
  br i1 %".91", label %"i.body.1", label %"i.done.1"
i.body.1:
  %".93" = load i64, ptr %".15"
  %".94" = add i64 %".93", 1
  store i64 %".94", ptr %".15"
  %".96" = getelementptr inbounds i64, ptr %".8", i64 %".93"
  %".97" = load i64, ptr %".96"
  %".98" = getelementptr inbounds ptr, ptr %".2", i64 %".97"
  %".99" = load ptr, ptr %".98"
  %".100" = getelementptr inbounds i8, ptr %".99", i64 32
  %".101" = load ptr, ptr %".100"
  %".102" = load i64, ptr %".15"
  %".103" = add i64 %".102", 1
  store i64 %".103", ptr %".15"
  %".105" = getelementptr inbounds i64, ptr %".8", i64 %".102"
  %".106" = load i64, ptr %".105"
  %".107" = getelementptr inbounds i64, ptr %".101", i64 %".106"
  %".108" = load i64, ptr %".107"
  %".109" = getelementptr inbounds i64, ptr %".27", i64 %"i.1"
  store i64 %".108", ptr %".109"
  %".111" = add nsw i64 %"i.1", 1
  br label %"i.head.1"
i.done.1:
  %".113" = getelementptr inbounds ptr, ptr %".6", i64 2
  %".114" = load ptr, ptr %".113"
  %".115" = ptrtoint ptr %".114" to i64
  %".116" = icmp eq i64 %".115", 0
  %".117" = xor i1 %".116", -1
  br i1 %".117", label %"i.done.1.if", label %"i.done.1.endif"
i.done.1.if:
  %".119" = ptrtoint ptr %".114" to i64
  %".120" = inttoptr i64 %".119" to void (ptr)*
  call void %".120"(ptr %".27")
  br label %"i.done.1.endif"
i.done.1.endif:
  br label %"i.head.2"
i.head.2:
  %"i.2" = phi  i64 [0, %"i.done.1.endif"], [%".165", %"axis.done"]
  %".124" = icmp slt i64 %"i.2", %".10"
  br i1 %".124", label %"i.body.2", label %"i.done.2"
i.body.2:
  %".126" = load i64, ptr %".15"
  %".127" = add i64 %".126", 1
  store i64 %".127", ptr %".15"
  %".129" = getelementptr inbounds i64, ptr %".8", i64 %".126"
  %".130" = load i64, ptr %".129"
  %".131" = load i64, ptr %".15"
  %".132" = add i64 %".131", 1
  store i64 %".132", ptr %".15"
  %".134" = getelementptr inbounds i64, ptr %".8", i64 %".131"
  %".135" = load i64, ptr %".134"
  %".136" = load i64, ptr %".15"
  %".137" = add i64 %".136", 1
  store i64 %".137", ptr %".15"
  %".139" = getelementptr inbounds i64, ptr %".8", i64 %".136"
  %".140" = load i64, ptr %".139"
  %".141" = getelementptr inbounds ptr, ptr %".2", i64 %"i.2"
  %".142" = load ptr, ptr %".141"
  %".143" = getelementptr inbounds i8, ptr %".142", i64 32
  %".144" = load ptr, ptr %".143"
  br label %"axis.head"
i.done.2:
  %".167" = load i64, ptr %".15"
  %".168" = getelementptr inbounds ptr, ptr %".6", i64 9
  %".169" = load ptr, ptr %".168"
  br label %"i.head.3"
axis.head:
  %"axis" = phi  i64 [0, %"i.body.2"], [%".163", %"proceed.3"]
  %".146" = icmp slt i64 %"axis", %".140"
  br i1 %".146", label %"axis.body", label %"axis.done"
axis.body:
  %".148" = getelementptr inbounds i64, ptr %".144", i64 %"axis"
  %".149" = load i64, ptr %".148"
  %".150" = load i64, ptr %".15"
  %".151" = add i64 %".150", 1
  store i64 %".151", ptr %".15"
  %".153" = getelementptr inbounds i64, ptr %".8", i64 %".150"
  %".154" = load i64, ptr %".153"
  %".155" = icmp sge i64 %".154", 0
  %".156" = xor i64 %".154", -1
  %".157" = select  i1 %".155", i64 0, i64 %".156"
  %".158" = getelementptr inbounds i64, ptr %".27", i64 %".157"
  %".159" = load i64, ptr %".158"
  %".160" = select  i1 %".155", i64 %".154", i64 %".159"
  %".161" = icmp eq i64 %".149", %".160"
  br i1 %".161", label %"proceed.3", label %"explain"
axis.done:
  %".165" = add nsw i64 %"i.2", 1
  br label %"i.head.2"
proceed.3:
  %".163" = add nsw i64 %"axis", 1
  br label %"axis.head"
i.head.3:
  %"i.3" = phi  i64 [0, %"i.done.2"], [%".233", %"axis.done.1.endif"]
  %".171" = icmp slt i64 %"i.3", %".12"
  br i1 %".171", label %"i.body.3", label %"i.done.3"
i.body.3:
  %".173" = load i64, ptr %".15"
  %".174" = add i64 %".173", 1
  store i64 %".174", ptr %".15"
  %".176" = getelementptr inbounds i64, ptr %".8", i64 %".173"
  %".177" = load i64, ptr %".176"
  %".178" = load i64, ptr %".15"
  %".179" = add i64 %".178", 1
  store i64 %".179", ptr %".15"
  %".181" = getelementptr inbounds i64, ptr %".8", i64 %".178"
  %".182" = load i64, ptr %".181"
  %".183" = load i64, ptr %".15"
  %".184" = add i64 %".183", 1
  store i64 %".184", ptr %".15"
  %".186" = getelementptr inbounds i64, ptr %".8", i64 %".183"
  %".187" = load i64, ptr %".186"
  %".188" = load i64, ptr %".15"
  %".189" = add i64 %".188", 1
  store i64 %".189", ptr %".15"
  %".191" = getelementptr inbounds i64, ptr %".8", i64 %".188"
  %".192" = load i64, ptr %".191"
  br label %"axis.head.1"
i.done.3:
  %".235" = getelementptr inbounds ptr, ptr %".6", i64 1
  %".236" = load ptr, ptr %".235"
  %".238" = getelementptr inbounds i64, ptr %".6", i64 6
  %".239" = load i64, ptr %".238"
  %".240" = icmp ne i64 %".239", 0
  br i1 %".240", label %"i.done.3.if", label %"i.done.3.else"
axis.head.1:
  %"axis.1" = phi  i64 [0, %"i.body.3"], [%".209", %"axis.body.1"]
  %".194" = icmp slt i64 %"axis.1", %".192"
  br i1 %".194", label %"axis.body.1", label %"axis.done.1"
axis.body.1:
  %".196" = load i64, ptr %".15"
  %".197" = add i64 %".196", 1
  store i64 %".197", ptr %".15"
  %".199" = getelementptr inbounds i64, ptr %".8", i64 %".196"
  %".200" = load i64, ptr %".199"
  %".201" = icmp sge i64 %".200", 0
  %".202" = xor i64 %".200", -1
  %".203" = select  i1 %".201", i64 0, i64 %".202"
  %".204" = getelementptr inbounds i64, ptr %".27", i64 %".203"
  %".205" = load i64, ptr %".204"
  %".206" = select  i1 %".201", i64 %".200", i64 %".205"
  %".207" = getelementptr inbounds i64, ptr %".16", i64 %"axis.1"
  store i64 %".206", ptr %".207"
  %".209" = add nsw i64 %"axis.1", 1
  br label %"axis.head.1"
axis.done.1:
  %".211" = trunc i64 %".192" to i32
  %".212" = trunc i64 %".182" to i32
  %".213" = call ptr @"tg_PyArray_New"(ptr %".169", i32 %".211", ptr %".16", i32 %".212", ptr null, ptr null, i32 0, i32 0, ptr null)
  %".214" = ptrtoint ptr %".213" to i64
  %".215" = icmp eq i64 %".214", 0
  br i1 %".215", label %"axis.done.1.if", label %"axis.done.1.endif", !prof !0
axis.done.1.if:
  br label %"made.head"
axis.done.1.endif:
  %".226" = getelementptr inbounds ptr, ptr %".23", i64 %"i.3"
  store ptr %".213", ptr %".226"
  %".228" = getelementptr inbounds i8, ptr %".213", i64 16
  %".229" = load ptr, ptr %".228"
  %".230" = add i64 %".10", %"i.3"
  %".231" = getelementptr inbounds ptr, ptr %".22", i64 %".230"
  store ptr %".229", ptr %".231"
  %".233" = add nsw i64 %"i.3", 1
  br label %"i.head.3"
made.head:
  %"made" = phi  i64 [0, %"axis.done.1.if"], [%".223", %"made.body"]
  %".218" = icmp slt i64 %"made", %"i.3"
  br i1 %".218", label %"made.body", label %"made.done"
made.body:
  %".220" = getelementptr inbounds ptr, ptr %".23", i64 %"made"
  %".221" = load ptr, ptr %".220"
  call void @"Py_DecRef"(ptr %".221")
  %".223" = add nsw i64 %"made", 1
  br label %"made.head"
made.done:
  ret ptr null
i.done.3.if:
  %".242" = call ptr @"PyEval_SaveThread"()
  %".243" = ptrtoint ptr %".236" to i64
  %".244" = inttoptr i64 %".243" to i64 (ptr, ptr, ptr, ptr)*
  %".245" = call i64 %".244"(ptr %".22", ptr %".27", ptr %".6", ptr %".17")
  store i64 %".245", ptr %".237"
  call void @"PyEval_RestoreThread"(ptr %".242")
  br label %"i.done.3.endif"
i.done.3.else:
  %".249" = ptrtoint ptr %".236" to i64
  %".250" = inttoptr i64 %".249" to i64 (ptr, ptr, ptr, ptr)*
  %".251" = call i64 %".250"(ptr %".22", ptr %".27", ptr %".6", ptr %".17")
  store i64 %".251", ptr %".237"
  br label %"i.done.3.endif"
i.done.3.endif:
  %".254" = load i64, ptr %".237"
  %".255" = icmp eq i64 %".254", 0
  br i1 %".255", label %"succeeded", label %"failed"
failed:
  br label %"i.head.5"
succeeded:
  store i64 %".167", ptr %".15"
  %".258" = call ptr @"PyTuple_New"(i64 %".12")
  %".259" = ptrtoint ptr %".258" to i64
  %".260" = icmp eq i64 %".259", 0
  br i1 %".260", label %"succeeded.if", label %"succeeded.endif", !prof !0
succeeded.if:
  br label %"made.head.1"
succeeded.endif:
  br label %"i.head.4"
made.head.1:
  %"made.1" = phi  i64 [0, %"succeeded.if"], [%".268", %"made.body.1"]
  %".263" = icmp slt i64 %"made.1", %".12"
  br i1 %".263", label %"made.body.1", label %"made.done.1"
made.body.1:
  %".265" = getelementptr inbounds ptr, ptr %".23", i64 %"made.1"
  %".266" = load ptr, ptr %".265"
  call void @"Py_DecRef"(ptr %".266")
  %".268" = add nsw i64 %"made.1", 1
  br label %"made.head.1"
made.done.1:
  ret ptr %".258"
i.head.4:
  %"i.4" = phi  i64 [0, %"succeeded.endif"], [%".327", %"axis.done.2.endif"]
  %".272" = icmp slt i64 %"i.4", %".12"
  br i1 %".272", label %"i.body.4", label %"i.done.4"
i.body.4:
  %".274" = load i64, ptr %".15"
  %".275" = add i64 %".274", 1
  store i64 %".275", ptr %".15"
  %".277" = getelementptr inbounds i64, ptr %".8", i64 %".274"
  %".278" = load i64, ptr %".277"
  %".279" = load i64, ptr %".15"
  %".280" = add i64 %".279", 1
  store i64 %".280", ptr %".15"
  %".282" = getelementptr inbounds i64, ptr %".8", i64 %".279"
  %".283" = load i64, ptr %".282"
  %".284" = load i64, ptr %".15"
  %".285" = add i64 %".284", 1
  store i64 %".285", ptr %".15"
  %".287" = getelementptr inbounds i64, ptr %".8", i64 %".284"
  %".288" = load i64, ptr %".287"
  %".289" = load i64, ptr %".15"
  %".290" = add i64 %".289", 1
  store i64 %".290", ptr %".15"
  %".292" = getelementptr inbounds i64, ptr %".8", i64 %".289"
  %".293" = load i64, ptr %".292"
  store i64 %".288", ptr %".18"
  br label %"axis.head.2"
i.done.4:
  ret ptr %".258"
axis.head.2:
  %"axis.2" = phi  i64 [0, %"i.body.4"], [%".312", %"axis.body.2"]
  %".296" = icmp slt i64 %"axis.2", %".293"
  br i1 %".296", label %"axis.body.2", label %"axis.done.2"
axis.body.2:
  %".298" = load i64, ptr %".18"
  %".299" = load i64, ptr %".15"
  %".300" = add i64 %".299", 1
  store i64 %".300", ptr %".15"
  %".302" = getelementptr inbounds i64, ptr %".8", i64 %".299"
  %".303" = load i64, ptr %".302"
  %".304" = icmp sge i64 %".303", 0
  %".305" = xor i64 %".303", -1
  %".306" = select  i1 %".304", i64 0, i64 %".305"
  %".307" = getelementptr inbounds i64, ptr %".27", i64 %".306"
  %".308" = load i64, ptr %".307"
  %".309" = select  i1 %".304", i64 %".303", i64 %".308"
  %".310" = mul i64 %".298", %".309"
  store i64 %".310", ptr %".18"
  %".312" = add nsw i64 %"axis.2", 1
  br label %"axis.head.2"
axis.done.2:
  %".314" = icmp sge i64 %".278", 0
  br i1 %".314", label %"axis.done.2.if", label %"axis.done.2.endif"
axis.done.2.if:
  %".316" = add i64 %".10", %"i.4"
  %".317" = getelementptr inbounds ptr, ptr %".22", i64 %".316"
  %".318" = load ptr, ptr %".317"
  %".319" = getelementptr inbounds ptr, ptr %".22", i64 %".278"
  %".320" = load ptr, ptr %".319"
  %".321" = load i64, ptr %".18"
  %".322" = call ptr @"memcpy"(ptr %".318", ptr %".320", i64 %".321")
  br label %"axis.done.2.endif"
axis.done.2.endif:
  %".324" = getelementptr inbounds ptr, ptr %".23", i64 %"i.4"
  %".325" = load ptr, ptr %".324"
  %".326" = call i32 @"PyTuple_SetItem"(ptr %".258", i64 %"i.4", ptr %".325")
  %".327" = add nsw i64 %"i.4", 1
  br label %"i.head.4"
i.head.5:
  %"i.5" = phi  i64 [0, %"failed"], [%".336", %"i.body.5"]
  %".331" = icmp slt i64 %"i.5", %".12"
  br i1 %".331", label %"i.body.5", label %"i.done.5"
i.body.5:
  %".333" = getelementptr inbounds ptr, ptr %".23", i64 %"i.5"
  %".334" = load ptr, ptr %".333"
  call void @"Py_DecRef"(ptr %".334")
  %".336" = add nsw i64 %"i.5", 1
  br label %"i.head.5"
i.done.5:
  %".338" = getelementptr inbounds i64, ptr %".17", i64 0
  store i64 %".254", ptr %".338"
  %".340" = call ptr @"PyLong_FromVoidPtr"(ptr %".17")
  %".341" = getelementptr inbounds ptr, ptr %".6", i64 5
  %".342" = load ptr, ptr %".341"
  %".343" = call ptr @"PyObject_CallOneArg"(ptr %".342", ptr %".340")
  call void @"Py_DecRef"(ptr %".340")
  ret ptr %".343"
}

declare ptr @"tg_PyArray_New"(ptr %".1", i32 %".2", ptr %".3", i32 %".4", ptr %".5", ptr %".6", i32 %".7", i32 %".8", ptr %".9")

declare void @"Py_DecRef"(ptr %".1")

declare ptr @"PyEval_SaveThread"()

declare void @"PyEval_RestoreThread"(ptr %".1")

declare ptr @"PyTuple_New"(i64 %".1")

declare ptr @"memcpy"(ptr %".1", ptr %".2", i64 %".3")

declare i32 @"PyTuple_SetItem"(ptr %".1", i64 %".2", ptr %".3")

declare ptr @"PyLong_FromVoidPtr"(ptr %".1")

declare ptr @"PyObject_CallOneArg"(ptr %".1", ptr %".2")

declare ptr @"PyObject_Vectorcall"(ptr %".1", ptr %".2", i64 %".3", ptr %".4")

define ptr @"acquire"(ptr %".1", i64 %".2")
{
.4:
  %".5" = getelementptr inbounds i64, ptr %".1", i64 10
  %".6" = atomicrmw xchg ptr %".5", i64 0 acq_rel
  %".7" = icmp ne i64 %".6", 0
  br i1 %".7", label %".4.if", label %".4.endif"
fresh:
  %".62" = add i64 %".2", 128
  %".63" = call ptr @"malloc"(i64 %".62")
  %".64" = ptrtoint ptr %".63" to i64
  %".65" = icmp eq i64 %".64", 0
  br i1 %".65", label %"fresh.if", label %"fresh.endif"
.4.if:
  %".9" = inttoptr i64 %".6" to ptr
  %".10" = getelementptr inbounds i64, ptr %".9", i64 -2
  %".11" = load i64, ptr %".10"
  %".12" = icmp uge i64 %".11", %".2"
  br i1 %".12", label %".4.if.if", label %".4.if.endif"
.4.endif:
  %".19" = getelementptr inbounds i64, ptr %".1", i64 11
  %".20" = atomicrmw xchg ptr %".19", i64 0 acq_rel
  %".21" = icmp ne i64 %".20", 0
  br i1 %".21", label %".4.endif.if", label %".4.endif.endif"
.4.if.if:
  ret ptr %".9"
.4.if.endif:
  %".15" = getelementptr inbounds ptr, ptr %".9", i64 -1
  %".16" = load ptr, ptr %".15"
  call void @"free"(ptr %".16")
  br label %"fresh"
.4.endif.if:
  %".23" = inttoptr i64 %".20" to ptr
  %".24" = getelementptr inbounds i64, ptr %".23", i64 -2
  %".25" = load i64, ptr %".24"
  %".26" = icmp uge i64 %".25", %".2"
  br i1 %".26", label %".4.endif.if.if", label %".4.endif.if.endif"
.4.endif.endif:
  %".33" = getelementptr inbounds i64, ptr %".1", i64 12
  %".34" = atomicrmw xchg ptr %".33", i64 0 acq_rel
  %".35" = icmp ne i64 %".34", 0
  br i1 %".35", label %".4.endif.endif.if", label %".4.endif.endif.endif"
.4.endif.if.if:
  ret ptr %".23"
.4.endif.if.endif:
  %".29" = getelementptr inbounds ptr, ptr %".23", i64 -1
  %".30" = load ptr, ptr %".29"
  call void @"free"(ptr %".30")
  br label %"fresh"
.4.endif.endif.if:
  %".37" = inttoptr i64 %".34" to ptr
  %".38" = getelementptr inbounds i64, ptr %".37", i64 -2
  %".39" = load i64, ptr %".38"
  %".40" = icmp uge i64 %".39", %".2"
  br i1 %".40", label %".4.endif.endif.if.if", label %".4.endif.endif.if.endif"
.4.endif.endif.endif:
  %".47" = getelementptr inbounds i64, ptr %".1", i64 13
  %".48" = atomicrmw xchg ptr %".47", i64 0 acq_rel
  %".49" = icmp ne i64 %".48", 0
  br i1 %".49", label %".4.endif.endif.endif.if", label %".4.endif.endif.endif.endif"
.4.endif.endif.if.if:
  ret ptr %".37"
.4.endif.endif.if.endif:
  %".43" = getelementptr inbounds ptr, ptr %".37", i64 -1
  %".44" = load ptr, ptr %".43"
  call void @"free"(ptr %".44")
  br label %"fresh"
.4.endif.endif.endif.if:
  %".51" = inttoptr i64 %".48" to ptr
  %".52" = getelementptr inbounds i64, ptr %".51", i64 -2
  %".53" = load i64, ptr %".52"
  %".54" = icmp uge i64 %".53", %".2"
  br i1 %".54", label %".4.endif.endif.endif.if.if", label %".4.endif.endif.endif.if.endif"
.4.endif.endif.endif.endif:
  br label %"fresh"
.4.endif.endif.endif.if.if:
  ret ptr %".51"
.4.endif.endif.endif.if.endif:
  %".57" = getelementptr inbounds ptr, ptr %".51", i64 -1
  %".58" = load ptr, ptr %".57"
  call void @"free"(ptr %".58")
  br label %"fresh"
fresh.if:
  ret ptr %".63"
fresh.endif:
  %".68" = ptrtoint ptr %".63" to i64
  %".69" = add i64 %".68", 127
  %".70" = and i64 %".69", -64
  %".71" = inttoptr i64 %".70" to ptr
  %".72" = getelementptr inbounds i64, ptr %".71", i64 -2
  store i64 %".2", ptr %".72"
  %".74" = getelementptr inbounds ptr, ptr %".71", i64 -1
  store ptr %".63", ptr %".74"
  ret ptr %".71"
}

declare void @"free"(ptr %".1")

declare ptr @"malloc"(i64 %".1")

define void @"release"(ptr %".1", ptr %".2")
{
.4:
  %".5" = ptrtoint ptr %".2" to i64
  %".6" = getelementptr inbounds i64, ptr %".1", i64 10
  %".7" = cmpxchg ptr %".6", i64 0, i64 %".5" acq_rel monotonic
  %".8" = extractvalue {i64, i1} %".7", 1
  br i1 %".8", label %".4.if", label %".4.endif"
.4.if:
  ret void
.4.endif:
  %".11" = getelementptr inbounds i64, ptr %".1", i64 11
  %".12" = cmpxchg ptr %".11", i64 0, i64 %".5" acq_rel monotonic
  %".13" = extractvalue {i64, i1} %".12", 1
  br i1 %".13", label %".4.endif.if", label %".4.endif.endif"
.4.endif.if:
  ret void
.4.endif.endif:
  %".16" = getelementptr inbounds i64, ptr %".1", i64 12
  %".17" = cmpxchg ptr %".16", i64 0, i64 %".5" acq_rel monotonic
  %".18" = extractvalue {i64, i1} %".17", 1
  br i1 %".18", label %".4.endif.endif.if", label %".4.endif.endif.endif"
.4.endif.endif.if:
  ret void
.4.endif.endif.endif:
  %".21" = getelementptr inbounds i64, ptr %".1", i64 13
  %".22" = cmpxchg ptr %".21", i64 0, i64 %".5" acq_rel monotonic
  %".23" = extractvalue {i64, i1} %".22", 1
  br i1 %".23", label %".4.endif.endif.endif.if", label %".4.endif.endif.endif.endif"
.4.endif.endif.endif.if:
  ret void
.4.endif.endif.endif.endif:
  %".26" = getelementptr inbounds ptr, ptr %".2", i64 -1
  %".27" = load ptr, ptr %".26"
  call void @"free"(ptr %".27")
  ret void
}

define internal void @"parallel_task"(ptr %".1", ptr %".2", ptr %".3", ptr %".4")
{
.6:
  %".7" = getelementptr inbounds ptr, ptr %".4", i64 0
  %".8" = load ptr, ptr %".7"
  %".9" = getelementptr inbounds ptr, ptr %".4", i64 1
  %".10" = load ptr, ptr %".9"
  %".11" = getelementptr inbounds i64, ptr %".4", i64 2
  %".12" = load i64, ptr %".11"
  br label %"head"
head:
  %".14" = getelementptr inbounds i64, ptr %".4", i64 3
  %".15" = atomicrmw add ptr %".14", i64 1 acq_rel
  %".16" = icmp slt i64 %".15", %".12"
  br i1 %".16", label %"body", label %"done"
body:
  %".18" = ptrtoint ptr %".8" to i64
  %".19" = inttoptr i64 %".18" to void (ptr, i64)*
  call void %".19"(ptr %".10", i64 %".15")
  br label %"head"
done:
  ret void
}

define void @"parallel"(ptr %".1", ptr %".2", ptr %".3", i64 %".4")
{
.6:
  %".7" = alloca i64, i32 4
  %".8" = alloca i64
  %".9" = alloca i64
  %".10" = alloca i64
  %".11" = getelementptr inbounds ptr, ptr %".7", i64 0
  store ptr %".2", ptr %".11"
  %".13" = getelementptr inbounds ptr, ptr %".7", i64 1
  store ptr %".3", ptr %".13"
  %".15" = getelementptr inbounds i64, ptr %".7", i64 2
  store i64 %".4", ptr %".15"
  %".17" = getelementptr inbounds i64, ptr %".7", i64 3
  store i64 0, ptr %".17"
  %".19" = getelementptr inbounds ptr, ptr %".1", i64 0
  %".20" = load ptr, ptr %".19"
  %".21" = getelementptr inbounds i64, ptr %".20", i64 2
  %".22" = load i64, ptr %".21"
  %".23" = icmp eq i64 %".22", 0
  br i1 %".23", label %".6.if", label %".6.endif", !prof !0
serial:
  call void @"parallel_task"(ptr %".9", ptr %".8", ptr %".10", ptr %".7")
  ret void
.6.if:
  %".25" = getelementptr inbounds ptr, ptr %".20", i64 3
  %".26" = load ptr, ptr %".25"
  %".27" = ptrtoint ptr %".26" to i64
  %".28" = inttoptr i64 %".27" to void ()*
  call void %".28"()
  br label %".6.endif"
.6.endif:
  %".31" = getelementptr inbounds i64, ptr %".20", i64 2
  %".32" = load i64, ptr %".31"
  %".33" = icmp eq i64 %".32", 1
  %".34" = xor i1 %".33", -1
  br i1 %".34", label %".6.endif.if", label %".6.endif.endif", !prof !0
.6.endif.if:
  br label %"serial"
.6.endif.endif:
  %".37" = getelementptr inbounds ptr, ptr %".20", i64 1
  %".38" = load ptr, ptr %".37"
  %".39" = ptrtoint ptr %".38" to i64
  %".40" = inttoptr i64 %".39" to i32 ()*
  %".41" = call i32 %".40"()
  %".42" = sext i32 %".41" to i64
  %".43" = icmp sle i64 %".42", 1
  br i1 %".43", label %".6.endif.endif.if", label %".6.endif.endif.endif"
.6.endif.endif.if:
  br label %"serial"
.6.endif.endif.endif:
  %".46" = icmp slt i64 %".42", %".4"
  %".47" = select  i1 %".46", i64 %".42", i64 %".4"
  store i64 %".47", ptr %".8"
  store ptr %".7", ptr %".9"
  store i64 0, ptr %".10"
  %".51" = getelementptr inbounds ptr, ptr %".20", i64 0
  %".52" = load ptr, ptr %".51"
  %".53" = trunc i64 %".42" to i32
  %".54" = ptrtoint ptr %".52" to i64
  %".55" = inttoptr i64 %".54" to void (void (ptr, ptr, ptr, ptr)*, ptr, ptr, ptr, ptr, i64, i64, i32)*
  call void %".55"(void (ptr, ptr, ptr, ptr)* @"parallel_task", ptr %".9", ptr %".8", ptr %".10", ptr %".7", i64 1, i64 1, i32 %".53")
  ret void
}

!0 = !{ !"branch_weights", i32 1, i32 99 }
