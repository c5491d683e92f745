from heads import *
V={}
def reg(name):
    def g(f): V[name]=f; return f
    return g
def start_of(d,w,s,cache,M0=64,**kw):
    return learned_start(d,M0,seed=s,**kw)
def concat(M0=64,ens=1,drop=0.,hidden=(64,64,32),bt=None,pre_bt=1024,prior=10.,**kw):
    def run(w,d,s,cache):
        st=learned_start(d,M0,seed=s,prior=prior,batch=pre_bt); fs=[];fn=[];info=[]
        for k in range(ens):
            torch.manual_seed(1000*s+k); m=Concat(d,st.e,hidden,drop); l,be=train(m,d,batch=bt or 1024,**kw); info.append(f'{l:.4f}/{be}')
            fs.append(m.matrix(d.Xt,m.E)); fn.append(m.matrix(d.Xt,torch.from_numpy(st.place(w.new_u,w.new_t,w.n_new))))
        return np.mean(fs,0),np.mean(fn,0),' '.join(info)
    return run
V['base']=concat()
V['base_all']=concat(M0=10**6)
V['base_b128']=concat(bt=128,pre_bt=128)
V['base_wd']=concat(wd=0.1)
V['base_drop']=concat(drop=0.1)
V['base_ed']=concat(edecay=1.0)
V['base_ens5']=concat(ens=5)
V['base_neg4']=concat(negs=4)
def gmmv(K,cov,alpha):
    def run(w,d,s,cache):
        g=gmm_fit(w,K,cov,s); S=resp(g,w.X); St=resp(g,w.Xt); pi=em_pi(S[d.u],d.t.numpy(),d.T,g.weights_,alpha)
        pn=em_pi(S[w.new_u],w.new_t,w.n_new,g.weights_,alpha); return np.log(St@pi.T+1e-9),np.log(St@pn.T+1e-9),''
    return run
for K in (9,16,32):
    for a in (0.01,10): V[f'gmm{K}_{a}']=gmmv(K,'full',a); V[f'gmmd{K}_{a}']=gmmv(K,'diag',a)
def mixv(J=16,alpha=10.,gm=None,**kw):
    def run(w,d,s,cache):
        init=None
        if gm: g=gmm_fit(w,J,gm,s); init=g.predict_proba(w.X)
        m=em_mixture(d,J,alpha=alpha,init=init,seed=s,**kw)
        St=m.s(d.Xt).numpy(); S=m.s(d.X).numpy(); pn=em_pi(S[w.new_u],w.new_t,w.n_new,m.pj.numpy(),alpha)
        return np.log(St@m.pi.numpy().T),np.log(St@pn.T),f'{m.vl:.4f}/{m.be}'
    return run
V['mix16']=mixv(); V['mix16_wd1']=mixv(wd=.1); V['mix16_g']=mixv(gm='full'); V['mix16_gd']=mixv(gm='diag'); V['mix32_gd']=mixv(J=32,gm='diag')
V['mix9_g']=mixv(J=9,gm='full')
def towv(ens=1,**kw):
    def run(w,d,s,cache):
        fs=[];info=[]
        for k in range(ens):
            m=fit_towers(d,seed=s*100+k,**kw); info.append(f'{m.vl:.4f}/{m.be}')
            with torch.no_grad(): fs.append(m.logits(d.Xt).numpy())
        return np.mean(fs,0),None,' '.join(info)
    return run
V['tow']=towv(); V['tow_l4']=towv(lam=4.); V['tow_l.2']=towv(lam=.2); V['tow8']=towv(k=8); V['tow_wd']=towv(wd=.1); V['tow_drop']=towv(drop=.1)
V['tow_ens5']=towv(ens=5)
