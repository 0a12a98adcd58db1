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
  %".17" = alloca i64, i32 5
  %".18" = alloca i64
  %".19" = getelementptr inbounds i64, ptr %".17", i64 4
  store i64 0, ptr %".19"
  %".21" = icmp eq i64 %".3", %".10"
  %".239" = alloca i64
  br i1 %".21", label %"proceed", label %"explain"
explain:
  %".348" = getelementptr inbounds ptr, ptr %".6", i64 4
  %".349" = load ptr, ptr %".348"
  %".350" = call ptr @"PyObject_Vectorcall"(ptr %".349", ptr %".2", i64 %".3", ptr null)
  ret ptr %".350"
proceed:
  %".23" = add i64 %".10", %".12"
  %".24" = alloca ptr, i64 %".23"
  %".25" = alloca ptr, i64 %".12"
  %".26" = getelementptr inbounds i64, ptr %".8", i64 2
  %".27" = load i64, ptr %".26"
  %".28" = add i64 %".27", 1
  %".29" = alloca i64, i64 %".28"
  %".30" = getelementptr inbounds i64, ptr %".6", i64 9
  %".31" = load i64, ptr %".30"
  %".32" = mul i64 %".14", 2
  %".33" = add i64 %".32", 4
  store i64 %".33", ptr %".15"
  br label %"i.head"
i.head:
  %"i" = phi  i64 [0, %"proceed"], [%".89", %"proceed.2"]
  %".36" = icmp slt i64 %"i", %".10"
  br i1 %".36", label %"i.body", label %"i.done"
i.body:
  %".38" = getelementptr inbounds ptr, ptr %".2", i64 %"i"
  %".39" = load ptr, ptr %".38"
  %".40" = getelementptr inbounds i8, ptr %".39", i64 8
  %".41" = load i64, ptr %".40"
  %".42" = icmp eq i64 %".41", %".31"
  br i1 %".42", label %"proceed.1", label %"explain"
i.done:
  store i64 4, ptr %".15"
  br label %"i.head.1"
proceed.1:
  %".44" = getelementptr inbounds i8, ptr %".39", i64 56
  %".45" = load ptr, ptr %".44"
  %".46" = getelementptr inbounds i8, ptr %".45", i64 28
  %".47" = load i32, ptr %".46"
  %".48" = sext i32 %".47" to i64
  %".49" = load i64, ptr %".15"
  %".50" = add i64 %".49", 1
  store i64 %".50", ptr %".15"
  %".52" = getelementptr inbounds i64, ptr %".8", i64 %".49"
  %".53" = load i64, ptr %".52"
  %".54" = icmp eq i64 %".48", %".53"
  %".55" = load i64, ptr %".15"
  %".56" = add i64 %".55", 1
  store i64 %".56", ptr %".15"
  %".58" = getelementptr inbounds i64, ptr %".8", i64 %".55"
  %".59" = load i64, ptr %".58"
  %".60" = icmp eq i64 %".48", %".59"
  %".61" = or i1 %".54", %".60"
  %".62" = getelementptr inbounds i8, ptr %".45", i64 26
  %".63" = load i8, ptr %".62"
  %".64" = icmp ne i8 %".63", 62
  %".65" = and i1 %".61", %".64"
  %".66" = load i64, ptr %".15"
  %".67" = add i64 %".66", 1
  store i64 %".67", ptr %".15"
  %".69" = getelementptr inbounds i64, ptr %".8", i64 %".66"
  %".70" = load i64, ptr %".69"
  %".71" = getelementptr inbounds i8, ptr %".39", i64 24
  %".72" = load i32, ptr %".71"
  %".73" = sext i32 %".72" to i64
  %".74" = icmp eq i64 %".73", %".70"
  %".75" = and i1 %".65", %".74"
  %".76" = getelementptr inbounds i8, ptr %".39", i64 64
  %".77" = load i32, ptr %".76"
  %".78" = and i32 %".77", 257
  %".79" = icmp eq i32 %".78", 257
  %".80" = and i1 %".75", %".79"
  br i1 %".80", label %"proceed.2", label %"explain"
proceed.2:
  %".82" = getelementptr inbounds i8, ptr %".39", i64 16
  %".83" = load ptr, ptr %".82"
  %".84" = getelementptr inbounds ptr, ptr %".24", i64 %"i"
  store ptr %".83", ptr %".84"
  %".86" = load i64, ptr %".15"
  %".87" = add i64 %".86", %".70"
  store i64 %".87", ptr %".15"
  %".89" = add nsw i64 %"i", 1
  br label %"i.head"
i.head.1:
  %"i.1" = phi  i64 [0, %"i.done"], [%".113", %"i.body.1"]
  %".93" = icmp slt i64 %"i.1", %".14"
  br i1 %".93", label %"i.body.1", label %"i.done.1"
i.body.1:
  %".95" = load i64, ptr %".15"
  %".96" = add i64 %".95", 1
  store i64 %".96", ptr %".15"
  %".98" = getelementptr inbounds i64, ptr %".8", i64 %".95"
  %".99" = load i64, ptr %".98"
  %".100" = getelementptr inbounds ptr, ptr %".2", i64 %".99"
  %".101" = load ptr, ptr %".100"
  %".102" = getelementptr inbounds i8, ptr %".101", i64 32
  %".103" = load ptr, ptr %".102"
  %".104" = load i64, ptr %".15"
  %".105" = add i64 %".104", 1
  store i64 %".105", ptr %".15"
  %".107" = getelementptr inbounds i64, ptr %".8", i64 %".104"
  %".108" = load i64, ptr %".107"
  %".109" = getelementptr inbounds i64, ptr %".103", i64 %".108"
  %".110" = load i64, ptr %".109"
  %".111" = getelementptr inbounds i64, ptr %".29", i64 %"i.1"
  store i64 %".110", ptr %".111"
  %".113" = add nsw i64 %"i.1", 1
  br label %"i.head.1"
i.done.1:
  %".115" = getelementptr inbounds ptr, ptr %".6", i64 2
  %".116" = load ptr, ptr %".115"
  %".117" = ptrtoint ptr %".116" to i64
  %".118" = icmp eq i64 %".117", 0
  %".119" = xor i1 %".118", -1
  br i1 %".119", label %"i.done.1.if", label %"i.done.1.endif"
i.done.1.if:
  %".121" = ptrtoint ptr %".116" to i64
  %".122" = inttoptr i64 %".121" to void (ptr)*
  call void %".122"(ptr %".29")
  br label %"i.done.1.endif"
i.done.1.endif:
  br label %"i.head.2"
i.head.2:
  %"i.2" = phi  i64 [0, %"i.done.1.endif"], [%".167", %"axis.done"]
  %".126" = icmp slt i64 %"i.2", %".10"
  br i1 %".126", label %"i.body.2", label %"i.done.2"
i.body.2:
  %".128" = load i64, ptr %".15"
  %".129" = add i64 %".128", 1
  store i64 %".129", ptr %".15"
  %".131" = getelementptr inbounds i64, ptr %".8", i64 %".128"
  %".132" = load i64, ptr %".131"
  %".133" = load i64, ptr %".15"
  %".134" = add i64 %".133", 1
  store i64 %".134", ptr %".15"
  %".136" = getelementptr inbounds i64, ptr %".8", i64 %".133"
  %".137" = load i64, ptr %".136"
  %".138" = load i64, ptr %".15"
  %".139" = add i64 %".138", 1
  store i64 %".139", ptr %".15"
  %".141" = getelementptr inbounds i64, ptr %".8", i64 %".138"
  %".142" = load i64, ptr %".141"
  %".143" = getelementptr inbounds ptr, ptr %".2", i64 %"i.2"
  %".144" = load ptr, ptr %".143"
  %".145" = getelementptr inbounds i8, ptr %".144", i64 32
  %".146" = load ptr, ptr %".145"
  br label %"axis.head"
i.done.2:
  %".169" = load i64, ptr %".15"
  %".170" = getelementptr inbounds ptr, ptr %".6", i64 9
  %".171" = load ptr, ptr %".170"
  br label %"i.head.3"
axis.head:
  %"axis" = phi  i64 [0, %"i.body.2"], [%".165", %"proceed.3"]
  %".148" = icmp slt i64 %"axis", %".142"
  br i1 %".148", label %"axis.body", label %"axis.done"
axis.body:
  %".150" = getelementptr inbounds i64, ptr %".146", i64 %"axis"
  %".151" = load i64, ptr %".150"
  %".152" = load i64, ptr %".15"
  %".153" = add i64 %".152", 1
  store i64 %".153", ptr %".15"
  %".155" = getelementptr inbounds i64, ptr %".8", i64 %".152"
  %".156" = load i64, ptr %".155"
  %".157" = icmp sge i64 %".156", 0
  %".158" = xor i64 %".156", -1
  %".159" = select  i1 %".157", i64 0, i64 %".158"
  %".160" = getelementptr inbounds i64, ptr %".29", i64 %".159"
  %".161" = load i64, ptr %".160"
  %".162" = select  i1 %".157", i64 %".156", i64 %".161"
  %".163" = icmp eq i64 %".151", %".162"
  br i1 %".163", label %"proceed.3", label %"explain"
axis.done:
  %".167" = add nsw i64 %"i.2", 1
  br label %"i.head.2"
proceed.3:
  %".165" = add nsw i64 %"axis", 1
  br label %"axis.head"
i.head.3:
  %"i.3" = phi  i64 [0, %"i.done.2"], [%".235", %"axis.done.1.endif"]
  %".173" = icmp slt i64 %"i.3", %".12"
  br i1 %".173", label %"i.body.3", label %"i.done.3"
i.body.3:
  %".175" = load i64, ptr %".15"
  %".176" = add i64 %".175", 1
  store i64 %".176", ptr %".15"
  %".178" = getelementptr inbounds i64, ptr %".8", i64 %".175"
  %".179" = load i64, ptr %".178"
  %".180" = load i64, ptr %".15"
  %".181" = add i64 %".180", 1
  store i64 %".181", ptr %".15"
  %".183" = getelementptr inbounds i64, ptr %".8", i64 %".180"
  %".184" = load i64, ptr %".183"
  %".185" = load i64, ptr %".15"
  %".186" = add i64 %".185", 1
  store i64 %".186", ptr %".15"
  %".188" = getelementptr inbounds i64, ptr %".8", i64 %".185"
  %".189" = load i64, ptr %".188"
  %".190" = load i64, ptr %".15"
  %".191" = add i64 %".190", 1
  store i64 %".191", ptr %".15"
  %".193" = getelementptr inbounds i64, ptr %".8", i64 %".190"
  %".194" = load i64, ptr %".193"
  br label %"axis.head.1"
i.done.3:
  %".237" = getelementptr inbounds ptr, ptr %".6", i64 1
  %".238" = load ptr, ptr %".237"
  %".240" = getelementptr inbounds i64, ptr %".6", i64 6
  %".241" = load i64, ptr %".240"
  %".242" = icmp ne i64 %".241", 0
  br i1 %".242", label %"i.done.3.if", label %"i.done.3.else"
axis.head.1:
  %"axis.1" = phi  i64 [0, %"i.body.3"], [%".211", %"axis.body.1"]
  %".196" = icmp slt i64 %"axis.1", %".194"
  br i1 %".196", label %"axis.body.1", label %"axis.done.1"
axis.body.1:
  %".198" = load i64, ptr %".15"
  %".199" = add i64 %".198", 1
  store i64 %".199", ptr %".15"
  %".201" = getelementptr inbounds i64, ptr %".8", i64 %".198"
  %".202" = load i64, ptr %".201"
  %".203" = icmp sge i64 %".202", 0
  %".204" = xor i64 %".202", -1
  %".205" = select  i1 %".203", i64 0, i64 %".204"
  %".206" = getelementptr inbounds i64, ptr %".29", i64 %".205"
  %".207" = load i64, ptr %".206"
  %".208" = select  i1 %".203", i64 %".202", i64 %".207"
  %".209" = getelementptr inbounds i64, ptr %".16", i64 %"axis.1"
  store i64 %".208", ptr %".209"
  %".211" = add nsw i64 %"axis.1", 1
  br label %"axis.head.1"
axis.done.1:
  %".213" = trunc i64 %".194" to i32
  %".214" = trunc i64 %".184" to i32
  %".215" = call ptr @"tg_PyArray_New"(ptr %".171", i32 %".213", ptr %".16", i32 %".214", ptr null, ptr null, i32 0, i32 0, ptr null)
  %".216" = ptrtoint ptr %".215" to i64
  %".217" = icmp eq i64 %".216", 0
  br i1 %".217", label %"axis.done.1.if", label %"axis.done.1.endif", !prof !0
axis.done.1.if:
  br label %"made.head"
axis.done.1.endif:
  %".228" = getelementptr inbounds ptr, ptr %".25", i64 %"i.3"
  store ptr %".215", ptr %".228"
  %".230" = getelementptr inbounds i8, ptr %".215", i64 16
  %".231" = load ptr, ptr %".230"
  %".232" = add i64 %".10", %"i.3"
  %".233" = getelementptr inbounds ptr, ptr %".24", i64 %".232"
  store ptr %".231", ptr %".233"
  %".235" = add nsw i64 %"i.3", 1
  br label %"i.head.3"
made.head:
  %"made" = phi  i64 [0, %"axis.done.1.if"], [%".225", %"made.body"]
  %".220" = icmp slt i64 %"made", %"i.3"
  br i1 %".220", label %"made.body", label %"made.done"
made.body:
  %".222" = getelementptr inbounds ptr, ptr %".25", i64 %"made"
  %".223" = load ptr, ptr %".222"
  call void @"Py_DecRef"(ptr %".223")
  %".225" = add nsw i64 %"made", 1
  br label %"made.head"
made.done:
  ret ptr null
i.done.3.if:
  %".244" = call ptr @"PyEval_SaveThread"()
  %".245" = ptrtoint ptr %".238" to i64
  %".246" = inttoptr i64 %".245" to i64 (ptr, ptr, ptr, ptr)*
  %".247" = call i64 %".246"(ptr %".24", ptr %".29", ptr %".6", ptr %".17")
  store i64 %".247", ptr %".239"
  call void @"PyEval_RestoreThread"(ptr %".244")
  br label %"i.done.3.endif"
i.done.3.else:
  %".251" = ptrtoint ptr %".238" to i64
  %".252" = inttoptr i64 %".251" to i64 (ptr, ptr, ptr, ptr)*
  %".253" = call i64 %".252"(ptr %".24", ptr %".29", ptr %".6", ptr %".17")
  store i64 %".253", ptr %".239"
  br label %"i.done.3.endif"
i.done.3.endif:
  %".256" = load i64, ptr %".239"
  %".257" = icmp eq i64 %".256", 0
  br i1 %".257", label %"succeeded", label %"failed"
failed:
  br label %"i.head.5"
succeeded:
  store i64 %".169", ptr %".15"
  %".260" = call ptr @"PyTuple_New"(i64 %".12")
  %".261" = ptrtoint ptr %".260" to i64
  %".262" = icmp eq i64 %".261", 0
  br i1 %".262", label %"succeeded.if", label %"succeeded.endif", !prof !0
succeeded.if:
  br label %"made.head.1"
succeeded.endif:
  br label %"i.head.4"
made.head.1:
  %"made.1" = phi  i64 [0, %"succeeded.if"], [%".270", %"made.body.1"]
  %".265" = icmp slt i64 %"made.1", %".12"
  br i1 %".265", label %"made.body.1", label %"made.done.1"
made.body.1:
  %".267" = getelementptr inbounds ptr, ptr %".25", i64 %"made.1"
  %".268" = load ptr, ptr %".267"
  call void @"Py_DecRef"(ptr %".268")
  %".270" = add nsw i64 %"made.1", 1
  br label %"made.head.1"
made.done.1:
  ret ptr %".260"
i.head.4:
  %"i.4" = phi  i64 [0, %"succeeded.endif"], [%".329", %"axis.done.2.endif"]
  %".274" = icmp slt i64 %"i.4", %".12"
  br i1 %".274", label %"i.body.4", label %"i.done.4"
i.body.4:
  %".276" = load i64, ptr %".15"
  %".277" = add i64 %".276", 1
  store i64 %".277", ptr %".15"
  %".279" = getelementptr inbounds i64, ptr %".8", i64 %".276"
  %".280" = load i64, ptr %".279"
  %".281" = load i64, ptr %".15"
  %".282" = add i64 %".281", 1
  store i64 %".282", ptr %".15"
  %".284" = getelementptr inbounds i64, ptr %".8", i64 %".281"
  %".285" = load i64, ptr %".284"
  %".286" = load i64, ptr %".15"
  %".287" = add i64 %".286", 1
  store i64 %".287", ptr %".15"
  %".289" = getelementptr inbounds i64, ptr %".8", i64 %".286"
  %".290" = load i64, ptr %".289"
  %".291" = load i64, ptr %".15"
  %".292" = add i64 %".291", 1
  store i64 %".292", ptr %".15"
  %".294" = getelementptr inbounds i64, ptr %".8", i64 %".291"
  %".295" = load i64, ptr %".294"
  store i64 %".290", ptr %".18"
  br label %"axis.head.2"
i.done.4:
  ret ptr %".260"
axis.head.2:
  %"axis.2" = phi  i64 [0, %"i.body.4"], [%".314", %"axis.body.2"]
  %".298" = icmp slt i64 %"axis.2", %".295"
  br i1 %".298", label %"axis.body.2", label %"axis.done.2"
axis.body.2:
  %".300" = load i64, ptr %".18"
  %".301" = load i64, ptr %".15"
  %".302" = add i64 %".301", 1
  store i64 %".302", ptr %".15"
  %".304" = getelementptr inbounds i64, ptr %".8", i64 %".301"
  %".305" = load i64, ptr %".304"
  %".306" = icmp sge i64 %".305", 0
  %".307" = xor i64 %".305", -1
  %".308" = select  i1 %".306", i64 0, i64 %".307"
  %".309" = getelementptr inbounds i64, ptr %".29", i64 %".308"
  %".310" = load i64, ptr %".309"
  %".311" = select  i1 %".306", i64 %".305", i64 %".310"
  %".312" = mul i64 %".300", %".311"
  store i64 %".312", ptr %".18"
  %".314" = add nsw i64 %"axis.2", 1
  br label %"axis.head.2"
axis.done.2:
  %".316" = icmp sge i64 %".280", 0
  br i1 %".316", label %"axis.done.2.if", label %"axis.done.2.endif"
axis.done.2.if:
  %".318" = add i64 %".10", %"i.4"
  %".319" = getelementptr inbounds ptr, ptr %".24", i64 %".318"
  %".320" = load ptr, ptr %".319"
  %".321" = getelementptr inbounds ptr, ptr %".24", i64 %".280"
  %".322" = load ptr, ptr %".321"
  %".323" = load i64, ptr %".18"
  %".324" = call ptr @"memcpy"(ptr %".320", ptr %".322", i64 %".323")
  br label %"axis.done.2.endif"
axis.done.2.endif:
  %".326" = getelementptr inbounds ptr, ptr %".25", i64 %"i.4"
  %".327" = load ptr, ptr %".326"
  %".328" = call i32 @"PyTuple_SetItem"(ptr %".260", i64 %"i.4", ptr %".327")
  %".329" = add nsw i64 %"i.4", 1
  br label %"i.head.4"
i.head.5:
  %"i.5" = phi  i64 [0, %"failed"], [%".338", %"i.body.5"]
  %".333" = icmp slt i64 %"i.5", %".12"
  br i1 %".333", label %"i.body.5", label %"i.done.5"
i.body.5:
  %".335" = getelementptr inbounds ptr, ptr %".25", i64 %"i.5"
  %".336" = load ptr, ptr %".335"
  call void @"Py_DecRef"(ptr %".336")
  %".338" = add nsw i64 %"i.5", 1
  br label %"i.head.5"
i.done.5:
  %".340" = getelementptr inbounds i64, ptr %".17", i64 0
  store i64 %".256", ptr %".340"
  %".342" = call ptr @"PyLong_FromVoidPtr"(ptr %".17")
  %".343" = getelementptr inbounds ptr, ptr %".6", i64 5
  %".344" = load ptr, ptr %".343"
  %".345" = call ptr @"PyObject_CallOneArg"(ptr %".344", ptr %".342")
  call void @"Py_DecRef"(ptr %".342")
  ret ptr %".345"
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
