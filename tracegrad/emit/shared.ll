; where objects have headers of 16 bytes and the little end comes first
; ModuleID = "runtime"

define ptr @"call"(ptr %".1", ptr %".2", i64 %".3")
{
entry:
  %".5" = getelementptr inbounds i8, ptr %".1", i64 16
  %".6" = load ptr, ptr %".5"
  %".7" = getelementptr inbounds ptr, ptr %".6", i64 3
  %".8" = load ptr, ptr %".7"
  %".9" = load i64, ptr %".8"
  %".10" = getelementptr inbounds i64, ptr %".8", i64 1
  %".11" = load i64, ptr %".10"
  %".12" = getelementptr inbounds i64, ptr %".8", i64 3
  %".13" = load i64, ptr %".12"
  %".14" = alloca i64
  %".15" = alloca i64, i32 64
  %".16" = alloca i64, i32 5
  %".17" = alloca i64
  %".18" = getelementptr inbounds i64, ptr %".16", i64 4
  store i64 0, ptr %".18"
  %".20" = icmp eq i64 %".3", %".9"
  %".238" = alloca i64
  br i1 %".20", label %"proceed", label %"explain"
explain:
  %".346" = getelementptr inbounds ptr, ptr %".6", i64 4
  %".347" = load ptr, ptr %".346"
  %".348" = call ptr @"PyObject_Vectorcall"(ptr %".347", ptr %".2", i64 %".3", ptr null)
  ret ptr %".348"
proceed:
  %".22" = add i64 %".9", %".11"
  %".23" = alloca ptr, i64 %".22"
  %".24" = alloca ptr, i64 %".11"
  %".25" = getelementptr inbounds i64, ptr %".8", i64 2
  %".26" = load i64, ptr %".25"
  %".27" = add i64 %".26", 1
  %".28" = alloca i64, i64 %".27"
  %".29" = getelementptr inbounds i64, ptr %".6", i64 9
  %".30" = load i64, ptr %".29"
  %".31" = mul i64 %".13", 2
  %".32" = add i64 %".31", 4
  store i64 %".32", ptr %".14"
  br label %"i.head"
i.head:
  %"i" = phi  i64 [0, %"proceed"], [%".88", %"proceed.2"]
  %".35" = icmp slt i64 %"i", %".9"
  br i1 %".35", label %"i.body", label %"i.done"
i.body:
  %".37" = getelementptr inbounds ptr, ptr %".2", i64 %"i"
  %".38" = load ptr, ptr %".37"
  %".39" = getelementptr inbounds i8, ptr %".38", i64 8
  %".40" = load i64, ptr %".39"
  %".41" = icmp eq i64 %".40", %".30"
  br i1 %".41", label %"proceed.1", label %"explain"
i.done:
  store i64 4, ptr %".14"
  br label %"i.head.1"
proceed.1:
  %".43" = getelementptr inbounds i8, ptr %".38", i64 56
  %".44" = load ptr, ptr %".43"
  %".45" = getelementptr inbounds i8, ptr %".44", i64 28
  %".46" = load i32, ptr %".45"
  %".47" = sext i32 %".46" to i64
  %".48" = load i64, ptr %".14"
  %".49" = add i64 %".48", 1
  store i64 %".49", ptr %".14"
  %".51" = getelementptr inbounds i64, ptr %".8", i64 %".48"
  %".52" = load i64, ptr %".51"
  %".53" = icmp eq i64 %".47", %".52"
  %".54" = load i64, ptr %".14"
  %".55" = add i64 %".54", 1
  store i64 %".55", ptr %".14"
  %".57" = getelementptr inbounds i64, ptr %".8", i64 %".54"
  %".58" = load i64, ptr %".57"
  %".59" = icmp eq i64 %".47", %".58"
  %".60" = or i1 %".53", %".59"
  %".61" = getelementptr inbounds i8, ptr %".44", i64 26
  %".62" = load i8, ptr %".61"
  %".63" = icmp ne i8 %".62", 62
  %".64" = and i1 %".60", %".63"
  %".65" = load i64, ptr %".14"
  %".66" = add i64 %".65", 1
  store i64 %".66", ptr %".14"
  %".68" = getelementptr inbounds i64, ptr %".8", i64 %".65"
  %".69" = load i64, ptr %".68"
  %".70" = getelementptr inbounds i8, ptr %".38", i64 24
  %".71" = load i32, ptr %".70"
  %".72" = sext i32 %".71" to i64
  %".73" = icmp eq i64 %".72", %".69"
  %".74" = and i1 %".64", %".73"
  %".75" = getelementptr inbounds i8, ptr %".38", i64 64
  %".76" = load i32, ptr %".75"
  %".77" = and i32 %".76", 257
  %".78" = icmp eq i32 %".77", 257
  %".79" = and i1 %".74", %".78"
  br i1 %".79", label %"proceed.2", label %"explain"
proceed.2:
  %".81" = getelementptr inbounds i8, ptr %".38", i64 16
  %".82" = load ptr, ptr %".81"
  %".83" = getelementptr inbounds ptr, ptr %".23", i64 %"i"
  store ptr %".82", ptr %".83"
  %".85" = load i64, ptr %".14"
  %".86" = add i64 %".85", %".69"
  store i64 %".86", ptr %".14"
  %".88" = add nsw i64 %"i", 1
  br label %"i.head"
i.head.1:
  %"i.1" = phi  i64 [0, %"i.done"], [%".112", %"i.body.1"]
  %".92" = icmp slt i64 %"i.1", %".13"
  br i1 %".92", label %"i.body.1", label %"i.done.1"
i.body.1:
  %".94" = load i64, ptr %".14"
  %".95" = add i64 %".94", 1
  store i64 %".95", ptr %".14"
  %".97" = getelementptr inbounds i64, ptr %".8", i64 %".94"
  %".98" = load i64, ptr %".97"
  %".99" = getelementptr inbounds ptr, ptr %".2", i64 %".98"
  %".100" = load ptr, ptr %".99"
  %".101" = getelementptr inbounds i8, ptr %".100", i64 32
  %".102" = load ptr, ptr %".101"
  %".103" = load i64, ptr %".14"
  %".104" = add i64 %".103", 1
  store i64 %".104", ptr %".14"
  %".106" = getelementptr inbounds i64, ptr %".8", i64 %".103"
  %".107" = load i64, ptr %".106"
  %".108" = getelementptr inbounds i64, ptr %".102", i64 %".107"
  %".109" = load i64, ptr %".108"
  %".110" = getelementptr inbounds i64, ptr %".28", i64 %"i.1"
  store i64 %".109", ptr %".110"
  %".112" = add nsw i64 %"i.1", 1
  br label %"i.head.1"
i.done.1:
  %".114" = getelementptr inbounds ptr, ptr %".6", i64 2
  %".115" = load ptr, ptr %".114"
  %".116" = ptrtoint ptr %".115" to i64
  %".117" = icmp eq i64 %".116", 0
  %".118" = xor i1 %".117", -1
  br i1 %".118", label %"i.done.1.if", label %"i.done.1.endif"
i.done.1.if:
  %".120" = ptrtoint ptr %".115" to i64
  %".121" = inttoptr i64 %".120" to void (ptr)*
  call void %".121"(ptr %".28")
  br label %"i.done.1.endif"
i.done.1.endif:
  br label %"i.head.2"
i.head.2:
  %"i.2" = phi  i64 [0, %"i.done.1.endif"], [%".166", %"axis.done"]
  %".125" = icmp slt i64 %"i.2", %".9"
  br i1 %".125", label %"i.body.2", label %"i.done.2"
i.body.2:
  %".127" = load i64, ptr %".14"
  %".128" = add i64 %".127", 1
  store i64 %".128", ptr %".14"
  %".130" = getelementptr inbounds i64, ptr %".8", i64 %".127"
  %".131" = load i64, ptr %".130"
  %".132" = load i64, ptr %".14"
  %".133" = add i64 %".132", 1
  store i64 %".133", ptr %".14"
  %".135" = getelementptr inbounds i64, ptr %".8", i64 %".132"
  %".136" = load i64, ptr %".135"
  %".137" = load i64, ptr %".14"
  %".138" = add i64 %".137", 1
  store i64 %".138", ptr %".14"
  %".140" = getelementptr inbounds i64, ptr %".8", i64 %".137"
  %".141" = load i64, ptr %".140"
  %".142" = getelementptr inbounds ptr, ptr %".2", i64 %"i.2"
  %".143" = load ptr, ptr %".142"
  %".144" = getelementptr inbounds i8, ptr %".143", i64 32
  %".145" = load ptr, ptr %".144"
  br label %"axis.head"
i.done.2:
  %".168" = load i64, ptr %".14"
  %".169" = getelementptr inbounds ptr, ptr %".6", i64 9
  %".170" = load ptr, ptr %".169"
  br label %"i.head.3"
axis.head:
  %"axis" = phi  i64 [0, %"i.body.2"], [%".164", %"proceed.3"]
  %".147" = icmp slt i64 %"axis", %".141"
  br i1 %".147", label %"axis.body", label %"axis.done"
axis.body:
  %".149" = getelementptr inbounds i64, ptr %".145", i64 %"axis"
  %".150" = load i64, ptr %".149"
  %".151" = load i64, ptr %".14"
  %".152" = add i64 %".151", 1
  store i64 %".152", ptr %".14"
  %".154" = getelementptr inbounds i64, ptr %".8", i64 %".151"
  %".155" = load i64, ptr %".154"
  %".156" = icmp sge i64 %".155", 0
  %".157" = xor i64 %".155", -1
  %".158" = select  i1 %".156", i64 0, i64 %".157"
  %".159" = getelementptr inbounds i64, ptr %".28", i64 %".158"
  %".160" = load i64, ptr %".159"
  %".161" = select  i1 %".156", i64 %".155", i64 %".160"
  %".162" = icmp eq i64 %".150", %".161"
  br i1 %".162", label %"proceed.3", label %"explain"
axis.done:
  %".166" = add nsw i64 %"i.2", 1
  br label %"i.head.2"
proceed.3:
  %".164" = add nsw i64 %"axis", 1
  br label %"axis.head"
i.head.3:
  %"i.3" = phi  i64 [0, %"i.done.2"], [%".234", %"axis.done.1.endif"]
  %".172" = icmp slt i64 %"i.3", %".11"
  br i1 %".172", label %"i.body.3", label %"i.done.3"
i.body.3:
  %".174" = load i64, ptr %".14"
  %".175" = add i64 %".174", 1
  store i64 %".175", ptr %".14"
  %".177" = getelementptr inbounds i64, ptr %".8", i64 %".174"
  %".178" = load i64, ptr %".177"
  %".179" = load i64, ptr %".14"
  %".180" = add i64 %".179", 1
  store i64 %".180", ptr %".14"
  %".182" = getelementptr inbounds i64, ptr %".8", i64 %".179"
  %".183" = load i64, ptr %".182"
  %".184" = load i64, ptr %".14"
  %".185" = add i64 %".184", 1
  store i64 %".185", ptr %".14"
  %".187" = getelementptr inbounds i64, ptr %".8", i64 %".184"
  %".188" = load i64, ptr %".187"
  %".189" = load i64, ptr %".14"
  %".190" = add i64 %".189", 1
  store i64 %".190", ptr %".14"
  %".192" = getelementptr inbounds i64, ptr %".8", i64 %".189"
  %".193" = load i64, ptr %".192"
  br label %"axis.head.1"
i.done.3:
  %".236" = getelementptr inbounds ptr, ptr %".6", i64 1
  %".237" = load ptr, ptr %".236"
  %".239" = getelementptr inbounds i64, ptr %".6", i64 6
  %".240" = load i64, ptr %".239"
  %".241" = icmp ne i64 %".240", 0
  br i1 %".241", label %"i.done.3.if", label %"i.done.3.else"
axis.head.1:
  %"axis.1" = phi  i64 [0, %"i.body.3"], [%".210", %"axis.body.1"]
  %".195" = icmp slt i64 %"axis.1", %".193"
  br i1 %".195", label %"axis.body.1", label %"axis.done.1"
axis.body.1:
  %".197" = load i64, ptr %".14"
  %".198" = add i64 %".197", 1
  store i64 %".198", ptr %".14"
  %".200" = getelementptr inbounds i64, ptr %".8", i64 %".197"
  %".201" = load i64, ptr %".200"
  %".202" = icmp sge i64 %".201", 0
  %".203" = xor i64 %".201", -1
  %".204" = select  i1 %".202", i64 0, i64 %".203"
  %".205" = getelementptr inbounds i64, ptr %".28", i64 %".204"
  %".206" = load i64, ptr %".205"
  %".207" = select  i1 %".202", i64 %".201", i64 %".206"
  %".208" = getelementptr inbounds i64, ptr %".15", i64 %"axis.1"
  store i64 %".207", ptr %".208"
  %".210" = add nsw i64 %"axis.1", 1
  br label %"axis.head.1"
axis.done.1:
  %".212" = trunc i64 %".193" to i32
  %".213" = trunc i64 %".183" to i32
  %".214" = call ptr @"tg_PyArray_New"(ptr %".170", i32 %".212", ptr %".15", i32 %".213", ptr null, ptr null, i32 0, i32 0, ptr null)
  %".215" = ptrtoint ptr %".214" to i64
  %".216" = icmp eq i64 %".215", 0
  br i1 %".216", label %"axis.done.1.if", label %"axis.done.1.endif", !prof !0
axis.done.1.if:
  br label %"made.head"
axis.done.1.endif:
  %".227" = getelementptr inbounds ptr, ptr %".24", i64 %"i.3"
  store ptr %".214", ptr %".227"
  %".229" = getelementptr inbounds i8, ptr %".214", i64 16
  %".230" = load ptr, ptr %".229"
  %".231" = add i64 %".9", %"i.3"
  %".232" = getelementptr inbounds ptr, ptr %".23", i64 %".231"
  store ptr %".230", ptr %".232"
  %".234" = add nsw i64 %"i.3", 1
  br label %"i.head.3"
made.head:
  %"made" = phi  i64 [0, %"axis.done.1.if"], [%".224", %"made.body"]
  %".219" = icmp slt i64 %"made", %"i.3"
  br i1 %".219", label %"made.body", label %"made.done"
made.body:
  %".221" = getelementptr inbounds ptr, ptr %".24", i64 %"made"
  %".222" = load ptr, ptr %".221"
  call void @"Py_DecRef"(ptr %".222")
  %".224" = add nsw i64 %"made", 1
  br label %"made.head"
made.done:
  ret ptr null
i.done.3.if:
  %".243" = call ptr @"PyEval_SaveThread"()
  %".244" = ptrtoint ptr %".237" to i64
  %".245" = inttoptr i64 %".244" to i64 (ptr, ptr, ptr, ptr)*
  %".246" = call i64 %".245"(ptr %".23", ptr %".28", ptr %".6", ptr %".16")
  store i64 %".246", ptr %".238"
  call void @"PyEval_RestoreThread"(ptr %".243")
  br label %"i.done.3.endif"
i.done.3.else:
  %".250" = ptrtoint ptr %".237" to i64
  %".251" = inttoptr i64 %".250" to i64 (ptr, ptr, ptr, ptr)*
  %".252" = call i64 %".251"(ptr %".23", ptr %".28", ptr %".6", ptr %".16")
  store i64 %".252", ptr %".238"
  br label %"i.done.3.endif"
i.done.3.endif:
  %".255" = load i64, ptr %".238"
  %".256" = icmp eq i64 %".255", 0
  br i1 %".256", label %"succeeded", label %"failed"
failed:
  br label %"i.head.5"
succeeded:
  store i64 %".168", ptr %".14"
  %".259" = call ptr @"PyTuple_New"(i64 %".11")
  %".260" = ptrtoint ptr %".259" to i64
  %".261" = icmp eq i64 %".260", 0
  br i1 %".261", label %"succeeded.if", label %"succeeded.endif", !prof !0
succeeded.if:
  br label %"made.head.1"
succeeded.endif:
  br label %"i.head.4"
made.head.1:
  %"made.1" = phi  i64 [0, %"succeeded.if"], [%".269", %"made.body.1"]
  %".264" = icmp slt i64 %"made.1", %".11"
  br i1 %".264", label %"made.body.1", label %"made.done.1"
made.body.1:
  %".266" = getelementptr inbounds ptr, ptr %".24", i64 %"made.1"
  %".267" = load ptr, ptr %".266"
  call void @"Py_DecRef"(ptr %".267")
  %".269" = add nsw i64 %"made.1", 1
  br label %"made.head.1"
made.done.1:
  ret ptr %".259"
i.head.4:
  %"i.4" = phi  i64 [0, %"succeeded.endif"], [%".328", %"axis.done.2.endif"]
  %".273" = icmp slt i64 %"i.4", %".11"
  br i1 %".273", label %"i.body.4", label %"i.done.4"
i.body.4:
  %".275" = load i64, ptr %".14"
  %".276" = add i64 %".275", 1
  store i64 %".276", ptr %".14"
  %".278" = getelementptr inbounds i64, ptr %".8", i64 %".275"
  %".279" = load i64, ptr %".278"
  %".280" = load i64, ptr %".14"
  %".281" = add i64 %".280", 1
  store i64 %".281", ptr %".14"
  %".283" = getelementptr inbounds i64, ptr %".8", i64 %".280"
  %".284" = load i64, ptr %".283"
  %".285" = load i64, ptr %".14"
  %".286" = add i64 %".285", 1
  store i64 %".286", ptr %".14"
  %".288" = getelementptr inbounds i64, ptr %".8", i64 %".285"
  %".289" = load i64, ptr %".288"
  %".290" = load i64, ptr %".14"
  %".291" = add i64 %".290", 1
  store i64 %".291", ptr %".14"
  %".293" = getelementptr inbounds i64, ptr %".8", i64 %".290"
  %".294" = load i64, ptr %".293"
  store i64 %".289", ptr %".17"
  br label %"axis.head.2"
i.done.4:
  ret ptr %".259"
axis.head.2:
  %"axis.2" = phi  i64 [0, %"i.body.4"], [%".313", %"axis.body.2"]
  %".297" = icmp slt i64 %"axis.2", %".294"
  br i1 %".297", label %"axis.body.2", label %"axis.done.2"
axis.body.2:
  %".299" = load i64, ptr %".17"
  %".300" = load i64, ptr %".14"
  %".301" = add i64 %".300", 1
  store i64 %".301", ptr %".14"
  %".303" = getelementptr inbounds i64, ptr %".8", i64 %".300"
  %".304" = load i64, ptr %".303"
  %".305" = icmp sge i64 %".304", 0
  %".306" = xor i64 %".304", -1
  %".307" = select  i1 %".305", i64 0, i64 %".306"
  %".308" = getelementptr inbounds i64, ptr %".28", i64 %".307"
  %".309" = load i64, ptr %".308"
  %".310" = select  i1 %".305", i64 %".304", i64 %".309"
  %".311" = mul i64 %".299", %".310"
  store i64 %".311", ptr %".17"
  %".313" = add nsw i64 %"axis.2", 1
  br label %"axis.head.2"
axis.done.2:
  %".315" = icmp sge i64 %".279", 0
  br i1 %".315", label %"axis.done.2.if", label %"axis.done.2.endif"
axis.done.2.if:
  %".317" = add i64 %".9", %"i.4"
  %".318" = getelementptr inbounds ptr, ptr %".23", i64 %".317"
  %".319" = load ptr, ptr %".318"
  %".320" = getelementptr inbounds ptr, ptr %".23", i64 %".279"
  %".321" = load ptr, ptr %".320"
  %".322" = load i64, ptr %".17"
  %".323" = call ptr @"memcpy"(ptr %".319", ptr %".321", i64 %".322")
  br label %"axis.done.2.endif"
axis.done.2.endif:
  %".325" = getelementptr inbounds ptr, ptr %".24", i64 %"i.4"
  %".326" = load ptr, ptr %".325"
  %".327" = call i32 @"PyTuple_SetItem"(ptr %".259", i64 %"i.4", ptr %".326")
  %".328" = add nsw i64 %"i.4", 1
  br label %"i.head.4"
i.head.5:
  %"i.5" = phi  i64 [0, %"failed"], [%".337", %"i.body.5"]
  %".332" = icmp slt i64 %"i.5", %".11"
  br i1 %".332", label %"i.body.5", label %"i.done.5"
i.body.5:
  %".334" = getelementptr inbounds ptr, ptr %".24", i64 %"i.5"
  %".335" = load ptr, ptr %".334"
  call void @"Py_DecRef"(ptr %".335")
  %".337" = add nsw i64 %"i.5", 1
  br label %"i.head.5"
i.done.5:
  store i64 %".255", ptr %".16"
  %".340" = call ptr @"PyLong_FromVoidPtr"(ptr %".16")
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
  %".7" = load ptr, ptr %".4"
  %".8" = getelementptr inbounds ptr, ptr %".4", i64 1
  %".9" = load ptr, ptr %".8"
  %".10" = getelementptr inbounds i64, ptr %".4", i64 2
  %".11" = load i64, ptr %".10"
  br label %"head"
head:
  %".13" = getelementptr inbounds i64, ptr %".4", i64 3
  %".14" = atomicrmw add ptr %".13", i64 1 acq_rel
  %".15" = icmp slt i64 %".14", %".11"
  br i1 %".15", label %"body", label %"done"
body:
  %".17" = ptrtoint ptr %".7" to i64
  %".18" = inttoptr i64 %".17" to void (ptr, i64)*
  call void %".18"(ptr %".9", i64 %".14")
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
  store ptr %".2", ptr %".7"
  %".12" = getelementptr inbounds ptr, ptr %".7", i64 1
  store ptr %".3", ptr %".12"
  %".14" = getelementptr inbounds i64, ptr %".7", i64 2
  store i64 %".4", ptr %".14"
  %".16" = getelementptr inbounds i64, ptr %".7", i64 3
  store i64 0, ptr %".16"
  %".18" = load ptr, ptr %".1"
  %".19" = getelementptr inbounds i64, ptr %".18", i64 2
  %".20" = load i64, ptr %".19"
  %".21" = icmp eq i64 %".20", 0
  br i1 %".21", label %".6.if", label %".6.endif", !prof !0
serial:
  call void @"parallel_task"(ptr %".9", ptr %".8", ptr %".10", ptr %".7")
  ret void
.6.if:
  %".23" = getelementptr inbounds ptr, ptr %".18", i64 3
  %".24" = load ptr, ptr %".23"
  %".25" = ptrtoint ptr %".24" to i64
  %".26" = inttoptr i64 %".25" to void ()*
  call void %".26"()
  br label %".6.endif"
.6.endif:
  %".29" = getelementptr inbounds i64, ptr %".18", i64 2
  %".30" = load i64, ptr %".29"
  %".31" = icmp eq i64 %".30", 1
  %".32" = xor i1 %".31", -1
  br i1 %".32", label %".6.endif.if", label %".6.endif.endif", !prof !0
.6.endif.if:
  br label %"serial"
.6.endif.endif:
  %".35" = getelementptr inbounds ptr, ptr %".18", i64 1
  %".36" = load ptr, ptr %".35"
  %".37" = ptrtoint ptr %".36" to i64
  %".38" = inttoptr i64 %".37" to i32 ()*
  %".39" = call i32 %".38"()
  %".40" = sext i32 %".39" to i64
  %".41" = icmp sle i64 %".40", 1
  br i1 %".41", label %".6.endif.endif.if", label %".6.endif.endif.endif"
.6.endif.endif.if:
  br label %"serial"
.6.endif.endif.endif:
  %".44" = icmp slt i64 %".40", %".4"
  %".45" = select  i1 %".44", i64 %".40", i64 %".4"
  store i64 %".45", ptr %".8"
  store ptr %".7", ptr %".9"
  store i64 0, ptr %".10"
  %".49" = load ptr, ptr %".18"
  %".50" = trunc i64 %".40" to i32
  %".51" = ptrtoint ptr %".49" to i64
  %".52" = inttoptr i64 %".51" to void (void (ptr, ptr, ptr, ptr)*, ptr, ptr, ptr, ptr, i64, i64, i32)*
  call void %".52"(void (ptr, ptr, ptr, ptr)* @"parallel_task", ptr %".9", ptr %".8", ptr %".10", ptr %".7", i64 1, i64 1, i32 %".50")
  ret void
}

!0 = !{ !"branch_weights", i32 1, i32 99 }
